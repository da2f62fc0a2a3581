//! Names that a client asked for, and the virtual hosts that answer them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::sample::SAMPLE;

/// Requested names of one client that virtual hosts of other names answer.
///
/// ```text
///   requested name ──▶ virtual host          virtual host ──▶ requested names: its aliases
/// ```
#[derive(Debug, Default)]
pub(crate) struct HostAliases {
    hosts: BTreeMap<Arc<str>, Arc<str>>,
    aliases: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl HostAliases {
    /// Whether both maps are each other's inverse; for debug assertions.
    pub(crate) fn is_consistent(&self) -> bool {
        let mut hosts = self.hosts.iter().take(SAMPLE);
        let mut aliases = self.aliases.iter().take(SAMPLE);
        hosts.all(|(asked, host)| {
            let aliases = self.aliases.get(host);
            aliases.is_some_and(|aliases| aliases.contains(asked))
        }) && aliases.all(|(host, aliases)| {
            let mut aliases_checked = aliases.iter().take(SAMPLE);
            !aliases.is_empty() && aliases_checked.all(|asked| self.host(asked) == Some(host))
        })
    }

    /// Returns the virtual host that answers a requested name.
    pub(crate) fn host(&self, asked: &str) -> Option<&Arc<str>> {
        self.hosts.get(asked)
    }

    /// Returns the requested names that a virtual host answers.
    pub(crate) fn of(&self, host: &str) -> impl Iterator<Item = &Arc<str>> {
        self.aliases.get(host).into_iter().flatten()
    }

    /// Lets a virtual host answer a requested name. Returns the one that did so before, if it is another one.
    pub(crate) fn set(&mut self, asked: &Arc<str>, host: &Arc<str>) -> Option<Arc<str>> {
        if self.host(asked) == Some(host) {
            return None;
        }
        let before = self.remove(asked);
        self.hosts.insert(Arc::clone(asked), Arc::clone(host));
        let aliases = self.aliases.entry(Arc::clone(host)).or_default();
        aliases.insert(Arc::clone(asked));
        before
    }

    /// No virtual host answers this name any more. Returns the one that did.
    pub(crate) fn remove(&mut self, asked: &str) -> Option<Arc<str>> {
        let host = self.hosts.remove(asked)?;
        if let Some(aliases) = self.aliases.get_mut(&host) {
            aliases.remove(asked);
            if aliases.is_empty() {
                self.aliases.remove(&host);
            }
        }
        Some(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_the_aliases_that_it_answers() {
        let [x, y, one, two] = ["r/x", "r/y", "r/one", "r/two"].map(Arc::<str>::from);
        let mut aliases = HostAliases::default();
        assert_eq!(aliases.set(&x, &one), None);
        assert_eq!(aliases.set(&y, &one), None);
        assert_eq!(aliases.of("r/one").collect::<Vec<_>>(), [&x, &y]);
        assert_eq!(aliases.set(&x, &one), None);
        assert_eq!(aliases.set(&x, &two), Some(Arc::clone(&one)));
        assert_eq!(aliases.of("r/one").collect::<Vec<_>>(), [&y]);
        assert_eq!(aliases.host("r/x"), Some(&two));
        assert_eq!(aliases.remove("r/y"), Some(one));
        assert_eq!(aliases.remove("r/x"), Some(two));
        assert!(aliases.hosts.is_empty() && aliases.aliases.is_empty());
    }
}
