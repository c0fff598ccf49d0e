//! Whom `--user` means.

use anyhow::{Context as _, bail};
use nix::unistd::User;
use zctrace::launch::Identity;

/// Finds a user by name, or takes `UID[:GID]` as it is. Without a group, it is the user's own, or the one with the same number.
pub fn find(text: &str) -> anyhow::Result<Identity> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        let (uid, gid) = text.split_once(':').map_or((text, None), |(uid, gid)| (uid, Some(gid)));
        let number = |part: &str| part.parse::<u32>().with_context(|| format!("'{text}' is no user: write a name, or UID[:GID]"));
        let uid = number(uid)?;
        let own_group = || User::from_uid(uid.into()).ok().flatten().map_or(uid, |user| user.gid.as_raw());
        return Ok(Identity { uid, gid: gid.map(number).transpose()?.unwrap_or_else(own_group) });
    }
    match User::from_name(text)? {
        Some(user) => Ok(Identity { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        None => bail!("there is no user '{text}'"),
    }
}
