//! Which calls a run counted.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::syscall::Selection;

/// Which calls a run counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Every one.
    All,
    /// Those of these names.
    Names(BTreeSet<String>),
}

impl Counted {
    /// What this selection counts.
    pub(super) fn of(selection: &Selection) -> Self {
        match selection {
            Selection::All => Self::All,
            Selection::Names(names) => Self::Names(names.iter().map(|&name| name.to_owned()).collect()),
        }
    }

    /// Whether calls of this name were counted.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            // As in a selection: every ioctl is an ioctl.
            Self::Names(names) => names.contains(name) || (name.starts_with("ioctl(") && names.contains("ioctl")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_all_or_names() {
        let json =
            |selection: &str| serde_json::to_string(&Counted::of(&selection.parse().expect("a selection"))).expect("is data");
        assert_eq!(json("all"), r#""all""#);
        assert_eq!(json("write,read"), r#"{"names":["read","write"]}"#);
    }

    #[test]
    fn every_ioctl_is_an_ioctl() {
        let counted = |selection: &str| Counted::of(&selection.parse().expect("a selection"));
        assert!(counted("ioctl").contains("ioctl(FICLONE)"));
        assert!(counted("%data").contains("ioctl(FICLONE)") && !counted("%data").contains("ioctl"));
    }
}
