//! Lookups of names in ascending order.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use imbl::{OrdMap, ordmap::RangedIter};

use super::resource::Resource;

/// Steps that a lookup may walk from the name before it.
const NEAR: usize = 4;

/// Tree searches that start a walk although the last names were far apart. Each name that was near adds one more.
const SEARCHES: usize = 8;

/// Lookup of names in ascending order.
///
/// Clients mostly subscribe to names that are neighbours in the map. A step to the next name costs one comparison, a
/// search as many as the map is deep.
#[derive(Debug)]
pub(crate) struct Ascending<'a> {
    resources: &'a OrdMap<Arc<str>, Arc<Resource>>,
    /// Entries from the last name on.
    ahead: Option<Peekable<EntryIter<'a>>>,
    /// Searches that may still start a walk.
    searches: usize,
    is_first: bool,
}

type EntryIter<'a> = RangedIter<'a, Arc<str>, Arc<Resource>, imbl::shared_ptr::DefaultSharedPtr>;

impl<'a> Ascending<'a> {
    pub(super) fn new(resources: &'a OrdMap<Arc<str>, Arc<Resource>>) -> Self {
        Self {
            resources,
            ahead: None,
            searches: SEARCHES,
            is_first: true,
        }
    }

    /// Returns the resource of this name, which must not be smaller than the name before.
    pub(crate) fn get(&mut self, name: &str) -> Option<&'a Arc<Resource>> {
        // A walk needs an allocation, which a single lookup is not worth.
        if std::mem::take(&mut self.is_first) {
            return self.resources.get(name);
        }
        if let Some(ahead) = &mut self.ahead {
            for _ in 0..NEAR {
                ahead.next_if(|(next, _)| ***next < *name);
            }
            match ahead.peek() {
                Some((next, resource)) if ***next == *name => {
                    self.searches += 1;
                    return Some(*resource);
                }
                Some((next, _)) if ***next < *name => {}
                _ => return None,
            }
        }
        if self.searches == 0 {
            self.ahead = None;
            return self.resources.get(name);
        }
        self.searches -= 1;
        let from = (Bound::Included(name), Bound::Unbounded);
        let mut ahead = self.resources.range::<_, str>(from).peekable();
        let found = ahead.peek().filter(|(next, _)| ***next == *name);
        let found = found.map(|(_, resource)| *resource);
        self.ahead = Some(ahead);
        found
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use super::*;

    /// Given names near each other and far apart, existing or not; then each lookup returns what a single one does.
    #[test]
    fn ascending_lookups_equal_single_lookups() {
        let resources: OrdMap<Arc<str>, Arc<Resource>> = (0..2_000)
            .step_by(2)
            .map(|n| format!("{n:04}"))
            .map(|name| {
                let resource = Resource::new(ResourceType::CLUSTER, name.as_str(), b"");
                (Arc::from(name), Arc::new(resource))
            })
            .collect();
        for step in [1, 2, 3, 7, 50, 700] {
            let mut ascending = Ascending::new(&resources);
            for n in (0..2_100).step_by(step) {
                let name = format!("{n:04}");
                assert_eq!(
                    ascending.get(&name),
                    resources.get(&*name),
                    "{name} by {step}"
                );
                assert_eq!(ascending.get(&name), resources.get(&*name), "{name} again");
            }
        }
    }
}
