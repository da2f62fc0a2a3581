//! Pairs of files of two trees.

use std::collections::HashMap;

use super::declared::{Links, linked};
use super::pair::{Fate, Pair};
use crate::model::{EnumId, File, FileId, MessageId, ServiceId, Tree};

/// Pairs files by path. A removed file is paired with the one new file that has all its
/// declarations.
pub(super) fn pairs<'a>(
    (old, new): (&'a Tree, &'a Tree),
    messages: &Links,
    enums: &Links,
    services: &Links,
) -> Vec<Pair<&'a File>> {
    let by_path: HashMap<&str, &File> = new.files.iter().map(|file| (&*file.path, file)).collect();
    let mut taken = vec![false; new.files.len()];
    let mut pairs = Vec::with_capacity(old.files.len());
    let mut removed = Vec::new();
    for file in &old.files {
        match by_path.get(&*file.path) {
            Some(same) => {
                taken[same.id.0 as usize] = true;
                pairs.push(Pair::Both {
                    old: file,
                    new: same,
                    fate: Fate::Kept,
                });
            }
            None => removed.push(file),
        }
    }
    for file in removed {
        let home = home(file, new, messages, enums, services);
        let free = home.filter(|home| !taken[home.0 as usize]);
        pairs.push(match free {
            Some(home) => {
                taken[home.0 as usize] = true;
                Pair::Both {
                    old: file,
                    new: &new[home],
                    fate: Fate::Renamed,
                }
            }
            None => Pair::Removed(file),
        });
    }
    let added = new.files.iter().zip(taken).filter(|(_, taken)| !taken);
    pairs.extend(added.map(|(file, _)| Pair::Added(file)));
    pairs
}

/// Returns the one new file with all declarations of `file`. Returns `None` if a declaration was
/// removed, or if there was none.
fn home(
    file: &File,
    new: &Tree,
    messages: &Links,
    enums: &Links,
    services: &Links,
) -> Option<FileId> {
    let message = |id: &MessageId| linked(messages, *id).map(|id| new[id].file);
    let index = |links: &Links, id: u32| links.get(id as usize).copied().flatten();
    let enumeration = |id: &EnumId| index(enums, id.0).map(|(id, _)| new[EnumId(id)].file);
    let service = |id: &ServiceId| index(services, id.0).map(|(id, _)| new[ServiceId(id)].file);
    let mut homes = (file.messages.iter().map(message))
        .chain(file.enums.iter().map(enumeration))
        .chain(file.services.iter().map(service));
    let first = homes.next()??;
    homes.all(|home| home == Some(first)).then_some(first)
}
