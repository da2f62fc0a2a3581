//! Review of a change: the teams to ask (V-20).

use std::collections::BTreeMap;

use crate::hash::{Digest, Hashes, VERSION_OPTION};
use crate::ledger::Owner;
use crate::model::{File, Name, Tree};

/// Teams that review a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Review {
    /// Changed files by owning team.
    pub teams: BTreeMap<String, Vec<String>>,
    /// Changed files without an owner.
    pub unowned: Vec<String>,
}

impl Review {
    /// Returns `needs-api-review` or `no-api-review`.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        if self.teams.is_empty() {
            "no-api-review"
        } else {
            "needs-api-review"
        }
    }
}

/// Returns the reviewers of the change between two trees; changed comments count. As in CODEOWNERS,
/// the last owner with a matching path prefix wins.
#[must_use]
pub fn review(old: &Tree, new: &Tree, owners: &[Owner]) -> Review {
    let (old, new) = (states(old), states(new));
    let added = new.keys().filter(|path| !old.contains_key(*path));
    let paths = old.keys().chain(added);
    let mut review = Review::default();
    for path in paths.filter(|path| changed(old.get(*path), new.get(*path))) {
        let owner = owners
            .iter()
            .rev()
            .find(|owner| path.starts_with(&owner.path));
        match owner {
            Some(owner) => review
                .teams
                .entry(owner.team.clone())
                .or_default()
                .push(path.clone()),
            None => review.unowned.push(path.clone()),
        }
    }
    for paths in review.teams.values_mut().chain([&mut review.unowned]) {
        paths.sort_unstable();
    }
    review
}

/// Text of a file, if its tree has texts, and its local hash.
type FileState = (Option<Name>, Option<Digest>);

/// Returns whether a file changed. Without texts (descriptor sets) the hashes are compared.
fn changed(old: Option<&FileState>, new: Option<&FileState>) -> bool {
    match (old, new) {
        (Some((Some(old), _)), Some((Some(new), _))) => old != new,
        (Some((_, old)), Some((_, new))) => old != new,
        _ => true,
    }
}

fn states(tree: &Tree) -> BTreeMap<String, FileState> {
    let hashes = Hashes::of(tree, VERSION_OPTION);
    let state = |file: &File| {
        let hash = hashes.file(&file.path).map(|hash| hash.local);
        (file.path.to_string(), (file.text.clone(), hash))
    };
    tree.targets().map(state).collect()
}
