//! Who gets a name that more than one file has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use oxds_core::snapshot::ResourceKey;

use super::{Folder, key};
use crate::dir::file::{Item, finding};
use crate::dir::group;
use crate::dir::owners::{Class, Scope};
use crate::store::Finding;

/// Which files are about to take a name for groups of one class.
type Tied<'a> = HashMap<(ResourceKey, &'a Class), Vec<(Arc<str>, &'a Arc<Path>)>>;

impl Folder {
    /// The candidates that own all their names.
    pub(super) fn accept(&mut self) -> BTreeSet<Arc<Path>> {
        let candidates = self
            .files
            .iter()
            .filter(|(_, state)| state.candidate.is_some());
        let mut accepted: BTreeSet<_> = candidates.map(|(path, _)| Arc::clone(path)).collect();
        // Each round refuses one file at least. One that is refused keeps its old names, which may be in the way of
        // another: hence more than one round.
        loop {
            let conflicts = self.conflicts(&accepted);
            if conflicts.is_empty() {
                return accepted;
            }
            for (path, findings) in conflicts {
                accepted.remove(&path);
                if let Some(state) = self.files.get_mut(&path) {
                    state.conflicts = findings;
                }
            }
        }
    }

    /// The candidates among `accepted` that claim a name which another file has, and why.
    fn conflicts(&self, accepted: &BTreeSet<Arc<Path>>) -> BTreeMap<Arc<Path>, Vec<Finding>> {
        let mut claims: HashMap<(Scope, ResourceKey), (&Arc<Path>, &Item)> = HashMap::new();
        let mut tied = Tied::new();
        let mut conflicts: BTreeMap<Arc<Path>, Vec<Finding>> = BTreeMap::new();
        let mut refuse = |path: &Arc<Path>, item: &Item, other: &Path| {
            conflicts
                .entry(Arc::clone(path))
                .or_default()
                .push(duplicate(path, item, other));
        };
        for path in accepted {
            let scope = group::of(&self.root, path);
            let items = self
                .files
                .get(path)
                .and_then(|state| state.candidate.as_ref());
            for item in items.into_iter().flatten() {
                let key = key(item);
                if let Some(other) = self.rival((&scope, &key), path, accepted, &mut tied) {
                    refuse(path, item, other);
                    continue;
                }
                let owner = self.owners.get(&scope, &key);
                let claim = (scope.clone(), key);
                match (owner, claims.get(&claim)) {
                    // It stays with the file that has it and is not about to change.
                    (Some(owner), _) if !accepted.contains(owner) => refuse(path, item, owner),
                    (_, None) => {
                        claims.insert(claim, (path, item));
                    }
                    // Of two that claim it, the one that had it …
                    (Some(owner), Some((other, others))) if owner == path && *other != path => {
                        refuse(other, others, path);
                        claims.insert(claim, (path, item));
                    }
                    // … or else the first.
                    (_, Some((other, _))) => refuse(path, item, other),
                }
            }
        }
        conflicts
    }

    /// The file of an equally specific group that has the name, or is about to take it; otherwise `path` is.
    fn rival<'a>(
        &'a self,
        (scope, key): (&Scope, &ResourceKey),
        path: &'a Arc<Path>,
        accepted: &BTreeSet<Arc<Path>>,
        tied: &mut Tied<'a>,
    ) -> Option<&'a Arc<Path>> {
        let (name, class) = scope.as_ref().zip(self.owners.class(scope))?;
        let rivals = self.owners.rivals(scope, key).into_iter();
        let mut served = rivals
            .filter_map(|rival| self.owners.get(&Some(Arc::clone(rival)), key))
            .filter(|owner| !accepted.contains(*owner));
        let claims = tied.entry((key.clone(), class)).or_default();
        let may_overlap = |rival: &Arc<str>| rival != name && self.owners.may_overlap(name, rival);
        let claimed = claims.iter().find(|(rival, _)| may_overlap(rival));
        let rival = served.next().or(claimed.map(|(_, path)| *path));
        if rival.is_none() {
            claims.push((Arc::clone(name), path));
        }
        rival
    }
}

fn duplicate(path: &Path, item: &Item, other: &Path) -> Finding {
    let (resource_type, name) = (item.resource.resource_type(), item.resource.name());
    let message = if path == other {
        format!("{resource_type} {name:?} is in this file twice")
    } else {
        format!("{resource_type} {name:?} is in {} too", other.display())
    };
    Finding {
        position: item.position,
        resource_type: Some(resource_type.clone()),
        resource: Some(name.to_string()),
        ..finding(path, "duplicate", &message)
    }
}
