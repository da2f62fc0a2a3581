//! From a listing to a tree: reads the target files, and their imports as needed.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::failure::{Failure, Unusable};
use super::listing::Listing;
use super::modules::Modules;
use super::source::LoadOptions;
use crate::model::{Name, Tree};
use crate::parse::{Draft, Error, Text};
use crate::paths::{clean, is_below, join};

/// Reads the target files of `listing` (those below `subdir`) and their imports.
pub(super) fn gather(
    listing: &Listing,
    modules: Option<Modules>,
    subdir: Option<&str>,
    options: &LoadOptions,
) -> Result<Tree, Failure> {
    let subdir = clean(subdir.unwrap_or_default());
    // Configured roots are complete: no further root is guessed.
    let guess = modules.is_none();
    let modules = modules.unwrap_or_else(|| Modules {
        roots: vec![subdir.clone()],
        ..Modules::default()
    });
    let targets = targets(listing, &modules, &subdir, options);
    if targets.is_empty() {
        let place = join(&listing.place, &subdir);
        let ignored = listing.paths.iter().any(|path| listing.ignores(path));
        let hint = if ignored && options.paths.is_empty() {
            "; git ignores the files there, --path PATH checks them"
        } else {
            ""
        };
        return Err(Unusable::Empty(place + hint).into());
    }
    let includes = options
        .includes
        .iter()
        .map(|folder| Listing::folder(folder));
    let mut gathering = Gathering {
        listing,
        includes: includes.collect::<Result<_, _>>()?,
        roots: modules.roots,
        subdir,
        guess,
        by_ending: HashMap::new(),
        files: Vec::new(),
        known: HashSet::new(),
    };
    gathering.run(targets)?;
    gathering.into_tree()
}

fn targets(
    listing: &Listing,
    modules: &Modules,
    subdir: &str,
    options: &LoadOptions,
) -> Vec<String> {
    let below = |path: &str, folders: &[String]| {
        folders.iter().any(|folder| is_below(path, &clean(folder)))
    };
    let protos = listing.paths.iter().filter(|path| path.ends_with(".proto"));
    protos
        .filter(|path| is_below(path, subdir) && below(path, &modules.roots))
        // A folder excluded from one module may be another module.
        .filter(|path| {
            let left_out = modules
                .excludes
                .iter()
                .filter(|exclude| is_below(path, exclude));
            let own = modules.roots.iter().filter(|root| is_below(path, root));
            let longest = |paths: &mut dyn Iterator<Item = &String>| paths.map(String::len).max();
            longest(&mut left_out.into_iter())
                .is_none_or(|exclude| longest(&mut own.into_iter()) >= Some(exclude))
        })
        .filter(|path| {
            if options.paths.is_empty() {
                !listing.ignores(path)
            } else {
                below(path, &options.paths)
            }
        })
        .filter(|path| !below(path, &options.excludes))
        .cloned()
        .collect()
}

/// Origin of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FileOrigin {
    /// File of the listing, by its path there.
    Own(String),
    /// File of the include with that index, by its path there, which is its import path.
    Include(usize, String),
}

/// File that was read.
struct Gathered {
    found: FileOrigin,
    target: bool,
    draft: Result<Draft, Vec<Error>>,
}

struct Gathering<'a> {
    listing: &'a Listing,
    includes: Vec<Listing>,
    roots: Vec<String>,
    /// Folder at the top of the tree.
    subdir: String,
    /// Whether an import that is not found may reveal a further root.
    guess: bool,
    /// Paths of the listing by bare file name; filled when first needed.
    by_ending: HashMap<&'a str, Vec<&'a str>>,
    files: Vec<Gathered>,
    known: HashSet<FileOrigin>,
}

impl<'a> Gathering<'a> {
    fn run(&mut self, targets: Vec<String>) -> Result<(), Failure> {
        let mut next: Vec<FileOrigin> = targets.into_iter().map(FileOrigin::Own).collect();
        let mut target = true;
        while !next.is_empty() {
            self.known.extend(next.iter().cloned());
            let read = self.read(&next, target)?;
            let imports: HashSet<String> = read
                .iter()
                .filter_map(|file| file.draft.as_ref().ok())
                .flat_map(|draft| draft.proto.dependency.iter().cloned())
                .collect();
            self.files.extend(read);
            let mut imports: Vec<_> = imports.into_iter().collect();
            imports.sort_unstable();
            let found = imports.iter().filter_map(|import| self.find(import));
            next = found.collect::<HashSet<_>>().into_iter().collect();
            next.retain(|found| !self.known.contains(found));
            target = false;
        }
        Ok(())
    }

    fn read(&self, files: &[FileOrigin], target: bool) -> Result<Vec<Gathered>, Unusable> {
        let mut texts = Vec::with_capacity(files.len());
        let places = std::iter::once((None, self.listing)).chain(
            self.includes
                .iter()
                .enumerate()
                .map(|(index, place)| (Some(index), place)),
        );
        for (include, place) in places {
            let here = files.iter().filter(|found| match found {
                FileOrigin::Own(_) => include.is_none(),
                FileOrigin::Include(index, _) => include == Some(*index),
            });
            let (found, paths): (Vec<_>, Vec<_>) = here
                .map(|found| match found {
                    FileOrigin::Own(path) | FileOrigin::Include(_, path) => {
                        (found.clone(), path.clone())
                    }
                })
                .unzip();
            if paths.is_empty() {
                continue;
            }
            for ((found, path), bytes) in found.into_iter().zip(&paths).zip(place.read(&paths)?) {
                texts.push((
                    found,
                    Text {
                        path: path.as_str().into(),
                        display: place.display(path),
                        target,
                        bytes,
                    },
                ));
            }
        }
        let read = texts.into_par_iter().map(|(found, text)| Gathered {
            found,
            target,
            draft: text.read(),
        });
        Ok(read.collect())
    }

    /// Finds the file of an import.
    fn find(&mut self, import: &str) -> Option<FileOrigin> {
        for root in &self.roots {
            let path = join(root, import);
            if self.listing.has(&path) {
                return Some(FileOrigin::Own(path));
            }
        }
        for (index, include) in self.includes.iter().enumerate() {
            if include.has(import) {
                return Some(FileOrigin::Include(index, import.to_owned()));
            }
        }
        if !self.guess || import.starts_with("google/protobuf/") {
            return None;
        }
        let root = self.root_for(import)?;
        let path = join(&root, import);
        self.roots.push(root);
        Some(FileOrigin::Own(path))
    }

    /// Returns the prefix of `import` in the path of some file: the shortest one, then the first
    /// one.
    fn root_for(&mut self, import: &str) -> Option<String> {
        if self.by_ending.is_empty() {
            let listing = self.listing;
            for path in &listing.paths {
                let name = path.rsplit('/').next().unwrap_or(path);
                self.by_ending.entry(name).or_default().push(path);
            }
        }
        let name = import.rsplit('/').next().unwrap_or(import);
        let candidates = self.by_ending.get(name)?.iter();
        let roots = candidates.filter_map(|path| path.strip_suffix(import)?.strip_suffix('/'));
        roots
            .min_by_key(|root| (root.len(), *root))
            .map(str::to_owned)
    }

    fn into_tree(self) -> Result<Tree, Failure> {
        let mut roots = self.roots;
        roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
        let mut texts = Vec::with_capacity(self.files.len());
        let mut read = Vec::with_capacity(self.files.len());
        for Gathered {
            found,
            target,
            mut draft,
        } in self.files
        {
            let (path, root, display) = match &found {
                FileOrigin::Own(path) => {
                    let root = roots.iter().find(|root| is_below(path, root));
                    let root = root.map_or("", String::as_str);
                    let name = path[root.len()..].trim_start_matches('/');
                    let display = self.listing.display(path);
                    (Name::from(name), below(root, &self.subdir).into(), display)
                }
                FileOrigin::Include(index, path) => {
                    let display = self.includes[*index].display(path);
                    (path.as_str().into(), Name::default(), display)
                }
            };
            if let Ok(draft) = &mut draft {
                draft.proto.name = Some(path.to_string());
                draft.root = root;
            }
            texts.push(Text {
                path,
                display,
                target,
                bytes: prost::bytes::Bytes::new(),
            });
            read.push(draft);
        }
        Tree::assemble(&texts, read).map_err(Failure::Compile)
    }
}

/// Returns the path of a folder relative to the folder `top`, if it lies below it.
fn below<'a>(folder: &'a str, top: &str) -> &'a str {
    let inside = folder.strip_prefix(top).unwrap_or(folder);
    inside.trim_start_matches('/')
}
