//! Enums whose values have names, for the command line and the file of checks.
//!
//! Public for zctrace's own crates only: the command line makes its options from them.

/// A value with a name.
pub trait Word: Copy + 'static {
    /// All values, in the order in which help shows them.
    const ALL: &'static [Self];

    /// The word for this value.
    fn word(self) -> &'static str;

    /// What the value means: its documentation, in one line.
    fn help(self) -> &'static str;

    /// The value that this word stands for.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.word() == word)
    }
}

/// Declares an enum whose variants have words. The documentation of a variant is its help, and the first variant is the default.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[doc = $help:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        pub enum $name {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::words::Word>::ALL[0]
            }
        }

        impl $crate::words::Word for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            fn help(self) -> &'static str {
                let help = match self {
                    $(Self::$variant => concat!($($help),+),)+
                };
                help.trim().trim_end_matches('.')
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Choice;

    #[test]
    fn a_value_is_found_by_its_word_and_its_help_is_its_documentation() {
        assert_eq!(Choice::ALL.iter().map(|choice| choice.word()).collect::<Vec<_>>(), ["auto", "ebpf", "strace"]);
        assert_eq!(Choice::from_word("ebpf"), Some(Choice::Ebpf));
        assert_eq!(Choice::from_word("Ebpf"), None);
        assert_eq!(Choice::default(), Choice::Auto);
        assert_eq!(Choice::Auto.help(), "eBPF where it can run, else strace");
    }
}
