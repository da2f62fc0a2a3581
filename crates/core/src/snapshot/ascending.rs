//! Looking up names that come in order.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use imbl::{OrdMap, ordmap::RangedIter};

use super::Resource;

/// A name that is no further than this from the one before is found by walking there.
const NEAR: usize = 4;

/// Searches that are made although names seem to lie far apart. Each name that was near pays for another.
const SEARCHES: usize = 8;

/// A client mostly asks for names that lie side by side in the order of all there are: a step to the next one costs a
/// comparison, a search as many as the map is deep.
#[derive(Debug)]
pub(crate) struct Ascending<'a> {
    resources: &'a OrdMap<Arc<str>, Arc<Resource>>,
    /// From the last name on.
    ahead: Option<Peekable<Entries<'a>>>,
    /// Places from which to walk that may still be searched.
    searches: usize,
    is_first: bool,
}

type Entries<'a> = RangedIter<'a, Arc<str>, Arc<Resource>, imbl::shared_ptr::DefaultSharedPtr>;

impl<'a> Ascending<'a> {
    pub(super) fn new(resources: &'a OrdMap<Arc<str>, Arc<Resource>>) -> Self {
        Self {
            resources,
            ahead: None,
            searches: SEARCHES,
            is_first: true,
        }
    }

    /// The resource of this name, which is no smaller than the one before.
    pub(crate) fn get(&mut self, name: &str) -> Option<&'a Arc<Resource>> {
        // One name alone needs no place to walk from, which takes an allocation.
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

    /// Names near each other and far apart, there or not, are found as one by one.
    #[test]
    fn names_in_order_are_found_as_one_by_one() {
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
