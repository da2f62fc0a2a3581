//! The files `buf.yaml` and `buf.work.yaml`: they list the modules of a folder, so a tree that uses
//! buf needs no other configuration. Dependencies in buf's registry are not resolved.

use std::path::Path;

use serde::Deserialize;

use super::failure::Unusable;
use super::listing::Listing;
use crate::buf::{Ignores, Section};
use crate::paths::{clean, join};

/// Module roots, excluded folders and ignored rules. Paths start at the top of the listing; the top
/// itself is the empty path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Modules {
    pub(super) roots: Vec<String>,
    pub(super) excludes: Vec<String>,
    pub(super) ignores: Ignores,
}

/// Relevant part of `buf.yaml`.
#[derive(Debug, Deserialize)]
struct BufYaml {
    version: String,
    #[serde(default)]
    modules: Vec<Module>,
    #[serde(default)]
    build: Build,
    #[serde(default)]
    breaking: Section,
    #[serde(default)]
    lint: Section,
}

#[derive(Debug, Deserialize)]
struct Module {
    #[serde(default)]
    path: String,
    #[serde(default)]
    excludes: Vec<String>,
    breaking: Option<Section>,
    lint: Option<Section>,
}

/// Section `build` of versions `v1beta1` and `v1`.
#[derive(Debug, Default, Deserialize)]
struct Build {
    #[serde(default)]
    roots: Vec<String>,
    #[serde(default)]
    excludes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct BufWorkYaml {
    #[serde(default)]
    directories: Vec<String>,
}

/// Reads the modules of a source. Returns `None` if it has neither file.
pub(super) fn of(listing: &Listing) -> Result<Option<Modules>, Unusable> {
    if listing.has("buf.work.yaml") {
        let work: BufWorkYaml = read(listing, "buf.work.yaml")?;
        let mut modules = Modules::default();
        for directory in &work.directories {
            let directory = clean(directory);
            let file = join(&directory, "buf.yaml");
            if listing.has(&file) {
                modules.add(&directory, read(listing, &file)?);
            } else {
                modules.roots.push(directory);
            }
        }
        return Ok(Some(modules));
    }
    if !listing.has("buf.yaml") {
        return Ok(None);
    }
    let mut modules = Modules::default();
    modules.add("", read(listing, "buf.yaml")?);
    Ok(Some(modules))
}

impl Modules {
    fn add(&mut self, folder: &str, file: BufYaml) {
        let old_roots = if file.build.roots.is_empty() {
            vec![String::new()]
        } else {
            file.build.roots
        };
        if file.version != "v2" || file.modules.is_empty() {
            self.ignore(folder, folder, &file.breaking, &file.lint);
            for root in &old_roots {
                let root = join(folder, &clean(root));
                let excludes = file.build.excludes.iter();
                self.excludes
                    .extend(excludes.map(|exclude| join(&root, &clean(exclude))));
                self.roots.push(root);
            }
            return;
        }
        for module in file.modules {
            let root = join(folder, &clean(&module.path));
            // In version 2 the excludes are relative to the folder of `buf.yaml`.
            let excludes = module.excludes.iter();
            self.excludes
                .extend(excludes.map(|exclude| join(folder, &clean(exclude))));
            // Settings of a module replace the settings for all modules.
            let breaking = module.breaking.as_ref().unwrap_or(&file.breaking);
            let lint = module.lint.as_ref().unwrap_or(&file.lint);
            self.ignore(folder, &root, breaking, lint);
            self.roots.push(root);
        }
    }

    fn ignore(&mut self, folder: &str, scope: &str, breaking: &Section, lint: &Section) {
        let ignores = &mut self.ignores;
        ignores.breaking.extend(breaking.ignores(folder, scope));
        ignores.lint.extend(lint.ignores(folder, scope));
        ignores.used.extend(breaking.used(scope));
    }
}

fn read<T: for<'a> Deserialize<'a>>(listing: &Listing, path: &str) -> Result<T, Unusable> {
    let bytes = listing
        .read(&[path.to_owned()])?
        .into_iter()
        .next()
        .unwrap_or_default();
    oxds_settings::read(&bytes).map_err(|error| Unusable::Modules {
        file: error.place(Path::new(&*listing.display(path))),
        why: error.to_string(),
    })
}
