//! [`Callback`]: a function by which somebody gets what a run says while it goes on.

use std::{fmt, sync::Arc};

/// A function that is called with values of this type.
pub struct Callback<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> Callback<T> {
    /// Calls this function.
    pub fn new(show: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Passes a value on.
    pub(super) fn call(&self, value: T) {
        self.0(value);
    }
}

impl<T> Clone for Callback<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Callback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
