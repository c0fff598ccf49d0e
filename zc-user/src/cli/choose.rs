//! Options whose value is one of a few words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use zctrace_core::words::Word;

/// Reads one of the words of this type. Help and completions list all of them, with what they mean.
pub fn one_of<T: Word + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let words = T::ALL.iter().map(|value| PossibleValue::new(value.word()).help(value.help()));
    PossibleValuesParser::new(words).map(|word| T::from_word(&word).expect("clap lets no other word pass"))
}

/// The word for the value that is taken if none is given.
pub fn usual<T: Word + Default>() -> &'static str {
    T::default().word()
}
