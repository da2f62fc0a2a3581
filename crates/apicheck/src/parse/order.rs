//! Order of files: imports before their importers.

use std::collections::{HashMap, HashSet};

use prost_reflect::DescriptorPool;

use super::draft::Draft;
use super::error::{Error, Reason};
use super::source::Sources;
use crate::model::{Name, Syntax};

/// Path prefix of built-in files, which need not be present.
const BUILT_IN: &str = "google/protobuf/";

/// Field number of `dependency` in `FileDescriptorProto`.
const DEPENDENCY: i32 = 3;

/// Sorts the files, adds built-in ones, and reports missing, duplicate and cyclic imports.
///
/// The result is consistent despite errors: a broken import is removed.
pub(super) fn sort(mut drafts: Vec<Draft>) -> (Vec<Draft>, Vec<Error>) {
    let mut errors = Vec::new();
    drafts.sort_by(|a, b| a.proto.name().cmp(b.proto.name()));
    drafts.dedup_by(|second, first| {
        let same = first.proto.name() == second.proto.name();
        if same {
            let reason = Reason::DuplicateFile(first.proto.name().to_owned());
            errors.push(
                Error::new(second, None, reason).with_other(crate::finding::Location {
                    path: first.display.to_string(),
                    span: None,
                }),
            );
        }
        same
    });
    add_built_in(&mut drafts);
    errors.extend(cut_missing(&mut drafts));
    let (order, more) = order(&mut drafts);
    errors.extend(more);
    let mut slots: Vec<_> = drafts.into_iter().map(Some).collect();
    let drafts = order.iter().filter_map(|&index| slots[index].take());
    (drafts.collect(), errors)
}

/// Adds the imported files of `google/protobuf/` that are not present.
fn add_built_in(drafts: &mut Vec<Draft>) {
    let pool = DescriptorPool::global();
    let mut known = paths(drafts);
    let mut next = 0;
    while next < drafts.len() {
        let imports = drafts[next].proto.dependency.iter();
        let wanted = imports.filter(|path| path.starts_with(BUILT_IN));
        let missing: Vec<_> = wanted
            .filter(|path| !known.contains(*path))
            .cloned()
            .collect();
        for path in missing {
            // A file may contain the import twice.
            if known.contains(&path) {
                continue;
            }
            if let Some(file) = pool.get_file_by_name(&path) {
                let proto = file.file_descriptor_proto().clone();
                drafts.push(Draft {
                    syntax: match proto.syntax() {
                        "proto3" => Syntax::Proto3,
                        _ => Syntax::Proto2,
                    },
                    proto,
                    root: Name::default(),
                    options: HashMap::new(),
                    display: Name::from(path.as_str()),
                    target: false,
                    text: None,
                    is_built_in: true,
                });
                known.insert(path);
            }
        }
        next += 1;
    }
}

fn paths(drafts: &[Draft]) -> HashSet<String> {
    let paths = drafts.iter().map(|draft| draft.proto.name().to_owned());
    paths.collect()
}

/// Returns the display paths of the files that import one of `paths`, directly or indirectly.
pub(super) fn importing(drafts: &[Draft], mut paths: HashSet<String>) -> HashSet<String> {
    loop {
        let before = paths.len();
        for draft in drafts {
            if draft
                .proto
                .dependency
                .iter()
                .any(|path| paths.contains(path))
            {
                paths.insert(draft.proto.name().to_owned());
            }
        }
        if paths.len() == before {
            break;
        }
    }
    let importing = drafts
        .iter()
        .filter(|draft| paths.contains(draft.proto.name()));
    importing.map(|draft| draft.display.to_string()).collect()
}

/// Reports and removes missing and duplicate imports.
fn cut_missing(drafts: &mut [Draft]) -> Vec<Error> {
    let known = paths(drafts);
    let mut errors = Vec::new();
    for draft in drafts {
        let mut seen = HashSet::new();
        let mut wrong = Vec::new();
        for (index, path) in draft.proto.dependency.iter().enumerate() {
            if !known.contains(path) {
                wrong.push((index, Reason::MissingImport(path.clone())));
            } else if !seen.insert(path.as_str()) {
                wrong.push((index, Reason::DuplicateImport(path.clone())));
            }
        }
        let sources = Sources::of(draft);
        for (index, reason) in &wrong {
            let span = sources.span(&[DEPENDENCY, *index as i32]);
            errors.push(Error::new(draft, span, reason.clone()));
        }
        for (index, _) in wrong.iter().rev() {
            remove_import(draft, *index);
        }
    }
    errors
}

fn remove_import(draft: &mut Draft, index: usize) {
    draft.proto.dependency.remove(index);
    for list in [
        &mut draft.proto.public_dependency,
        &mut draft.proto.weak_dependency,
    ] {
        list.retain(|&other| other != index as i32);
        for other in list.iter_mut().filter(|other| **other > index as i32) {
            *other -= 1;
        }
    }
    // The source positions of the following imports get a smaller index.
    if let Some(info) = &mut draft.proto.source_code_info {
        info.location
            .retain_mut(|location| match location.path[..] {
                [DEPENDENCY, other] if other == index as i32 => false,
                [DEPENDENCY, ref mut other] if *other > index as i32 => {
                    *other -= 1;
                    true
                }
                _ => true,
            });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the path from the first file to this one.
    Open,
    Done,
}

/// Returns the file indices, imports first. Each cycle is reported once and broken.
fn order(drafts: &mut [Draft]) -> (Vec<usize>, Vec<Error>) {
    let index: HashMap<String, usize> = drafts
        .iter()
        .enumerate()
        .map(|(index, draft)| (draft.proto.name().to_owned(), index))
        .collect();
    let mut marks = vec![Mark::New; drafts.len()];
    let mut order = Vec::with_capacity(drafts.len());
    let mut errors = Vec::new();
    for first in 0..drafts.len() {
        // `(file, next import)`. An explicit stack, because import chains may be long.
        let mut stack = match marks[first] {
            Mark::New => vec![(first, 0)],
            _ => continue,
        };
        marks[first] = Mark::Open;
        while let Some((file, next)) = stack.last_mut() {
            let Some(path) = drafts[*file].proto.dependency.get(*next) else {
                marks[*file] = Mark::Done;
                order.push(*file);
                stack.pop();
                continue;
            };
            let import = index[path];
            match marks[import] {
                Mark::Done => *next += 1,
                Mark::New => {
                    *next += 1;
                    marks[import] = Mark::Open;
                    stack.push((import, 0));
                }
                Mark::Open => {
                    let (file, next) = (*file, *next);
                    errors.push(cycle(drafts, &stack, import, next));
                    remove_import(&mut drafts[file], next);
                }
            }
        }
    }
    (order, errors)
}

fn cycle(drafts: &[Draft], stack: &[(usize, usize)], back_to: usize, next: usize) -> Error {
    let name = |file: usize| drafts[file].proto.name().to_owned();
    let files = stack.iter().map(|(file, _)| *file);
    let mut circle: Vec<String> = files
        .skip_while(|file| *file != back_to)
        .map(name)
        .collect();
    circle.push(name(back_to));
    let last = stack.last().map_or(back_to, |(file, _)| *file);
    let span = Sources::of(&drafts[last]).span(&[DEPENDENCY, next as i32]);
    Error::new(&drafts[last], span, Reason::ImportCycle(circle))
}
