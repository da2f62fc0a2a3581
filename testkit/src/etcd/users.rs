//! Users, their permissions and their tokens.

use std::collections::HashMap;

use tonic::Status;
use tonic::metadata::MetadataMap;

use super::mvcc::KeyRange;
use super::refusal;

/// A user of a scripted etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The password.
    pub password: String,
    /// The permissions of all roles.
    pub permissions: Vec<Permission>,
    /// Whether the user has the role `root`, which may do everything.
    pub is_root: bool,
}

/// A permission on a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// First key.
    pub key: Vec<u8>,
    /// First key after the range; empty for one key alone.
    pub range_end: Vec<u8>,
    /// Whether keys may be read.
    pub read: bool,
    /// Whether keys may be written.
    pub write: bool,
}

/// A use of keys that needs a permission.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need<'a> {
    Read(KeyRange<'a>),
    Write(KeyRange<'a>),
    /// Only the role `root` may.
    Administration,
}

/// All users; authentication is off without any.
#[derive(Debug, Clone, Default)]
pub(super) struct Users {
    users: HashMap<String, User>,
    /// Users by their tokens.
    tokens: HashMap<String, String>,
    issued: u64,
}

impl Users {
    /// Returns whether requests need a token.
    pub(super) fn are_required(&self) -> bool {
        !self.users.is_empty()
    }

    /// Adds or replaces a user.
    pub(super) fn set(&mut self, name: String, user: User) {
        self.users.insert(name, user);
    }

    /// Makes all tokens invalid.
    pub(super) fn expire_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Issues a token.
    ///
    /// # Errors
    /// Authentication is off, or name or password are wrong.
    pub(super) fn authenticate(&mut self, name: &str, password: &str) -> Result<String, Status> {
        if !self.are_required() {
            return Err(refusal::no_authentication());
        }
        let user = self.users.get(name);
        if user.is_none_or(|user| user.password != password) {
            return Err(refusal::wrong_password());
        }
        self.issued += 1;
        let token = format!("token.{}", self.issued);
        self.tokens.insert(token.clone(), name.to_owned());
        Ok(token)
    }

    /// Checks that the token of a request is valid, and that its user may do all this.
    ///
    /// # Errors
    /// A refusal.
    pub(super) fn check(&self, metadata: &MetadataMap, needs: &[Need<'_>]) -> Result<(), Status> {
        if !self.are_required() {
            return Ok(());
        }
        let token = metadata.get("token").and_then(|token| token.to_str().ok());
        let token = token.ok_or_else(refusal::no_user)?;
        let user = self.tokens.get(token).and_then(|name| self.users.get(name));
        let user = user.ok_or_else(refusal::invalid_token)?;
        if user.is_root || needs.iter().all(|need| user.may(*need)) {
            Ok(())
        } else {
            Err(refusal::permission_denied())
        }
    }
}

impl User {
    fn may(&self, need: Need<'_>) -> bool {
        let (range, write) = match need {
            Need::Read(range) => (range, false),
            Need::Write(range) => (range, true),
            Need::Administration => return false,
        };
        self.permissions.iter().any(|permission| {
            let allowed = if write {
                permission.write
            } else {
                permission.read
            };
            allowed && permission.covers(range)
        })
    }
}

impl Permission {
    /// One permission must cover the whole range; etcd would also accept several adjacent ones.
    fn covers(&self, range: KeyRange<'_>) -> bool {
        let own = KeyRange {
            key: &self.key,
            end: &self.range_end,
        };
        if !own.contains(range.key) {
            return false;
        }
        match (range.end, own.end) {
            ([], _) | (_, [0]) => true,
            ([0], _) | (_, []) => false,
            (end, own_end) => end <= own_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_covers_ranges_within_its_own() {
        let permission = Permission {
            key: b"/a/".to_vec(),
            range_end: b"/a0".to_vec(),
            read: true,
            write: false,
        };
        let covers = |key: &'static str, end: &'static str| {
            permission.covers(KeyRange {
                key: key.as_bytes(),
                end: end.as_bytes(),
            })
        };
        assert!(covers("/a/", "/a0") && covers("/a/x", "") && covers("/a/x", "/a/y"));
        assert!(!covers("/a", "/a0") && !covers("/a/", "/a1") && !covers("/a/", "\0"));
    }
}
