//! Enums whose values have names, in reports, on the command line and in the file of checks; and
//! the name that is meant by one with a typing error.
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

/// Declares an enum whose variants have names: `ALL`, `name` and `from_name` follow from
/// the list.
macro_rules! names {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$of_variant:meta])+ $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$of_variant])+ $variant,)+
        }

        impl $name {
            /// Every one.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
pub(crate) use names;

/// Declares an enum whose variants have words. The documentation of a variant is its help, and the
/// first variant is the default.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[doc = $help:literal])+ $variant:ident = $word:literal,)+ }) => {
        $crate::words::names! {
            $(#[$about])*
            pub enum $name { $($(#[doc = $help])+ $variant = $word,)+ }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl $crate::words::Word for $name {
            const ALL: &'static [Self] = &$name::ALL;

            fn word(self) -> &'static str {
                self.name()
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

/// The nearest name, if it is near enough.
pub fn nearest_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(name, word), name))
        .min();
    near.filter(|(distance, _)| *distance <= (word.len() / 3).max(1))
        .map(|(_, name)| name)
}

/// `; did you mean 'calls'?`, or nothing without a near name.
pub fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean '{near}'?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Choice;

    #[test]
    fn a_value_is_found_by_its_word_and_its_help_is_its_documentation() {
        let words = Choice::ALL.iter().map(|choice| choice.word());
        assert_eq!(words.collect::<Vec<_>>(), ["auto", "ebpf", "strace"]);
        let found = ["ebpf", "Ebpf"].map(Choice::from_word);
        assert_eq!(found, [Some(Choice::Ebpf), None]);
        assert_eq!(Choice::default(), Choice::Auto);
        assert_eq!(Choice::Auto.help(), "eBPF where it can run, else strace");
    }
}
