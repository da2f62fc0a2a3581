//! Proto files to a [`Tree`]: syntax, names, options, and all errors that a compiler reports.
//!
//! ```text
//!   texts ─► text (protox-parse, one file at a time;    ─┐
//!                 convert: editions and more, before)    │
//!   descriptor sets ────────────────────────────────────┴─► Draft
//!              │
//!            order    finds imports, rejects cycles, computes what each file sees
//!            names    one table with every declaration
//!            options  the extensions of *Options, in a small descriptor pool
//!              │
//!           element   resolves names and reads options: the elements of the tree
//!            check    colliding numbers and names
//! ```
//!
//! Names are resolved here and not by a descriptor pool. A pool checks whether *any* file declares
//! the first part of a name, but the language requires that an *imported* file declares it. Inside
//! `envoy.extensions`, `config.core.v3.Metadata` means `envoy.config.core.v3.Metadata`, even if
//! `envoy.extensions.config` exists elsewhere.
//!
//! Every error is reported, except those that follow from another error.

mod aggregate;
mod check;
mod convert;
mod draft;
mod element;
mod error;
mod features;
mod limits;
mod names;
mod options;
mod order;
mod source;
mod text;
pub(crate) mod token;

use std::collections::HashSet;

use prost::bytes::Bytes;
use rayon::prelude::*;

pub use draft::{Draft, Text};
pub use error::{Error, Reason};

use crate::model::Tree;

impl Tree {
    /// Builds the tree of `(path, text)` pairs, all of them targets. `google/protobuf/*.proto` are
    /// built in.
    ///
    /// # Errors
    /// Returns all errors that a compiler reports, in the order of files and lines.
    pub fn parse<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Tree, Vec<Error>> {
        let texts = files.into_iter().map(|(path, text)| Text {
            path: path.into(),
            display: path.into(),
            target: true,
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        });
        Tree::read(&texts.collect::<Vec<_>>())
    }

    /// Builds the tree of these texts, on all cores.
    ///
    /// # Errors
    /// Fails like [`Tree::parse`].
    pub fn read(texts: &[Text]) -> Result<Tree, Vec<Error>> {
        let read = texts.par_iter().map(Text::read).collect();
        Tree::assemble(texts, read)
    }

    /// Builds the tree of texts that are parsed already; `read` has one result for each of `texts`.
    pub(crate) fn assemble(
        texts: &[Text],
        read: Vec<Result<Draft, Vec<Error>>>,
    ) -> Result<Tree, Vec<Error>> {
        let mut drafts = Vec::with_capacity(read.len());
        let mut errors = Vec::new();
        let mut unreadable = HashSet::new();
        for (text, file) in texts.iter().zip(read) {
            drafts.push(file.unwrap_or_else(|mut wrong| {
                errors.append(&mut wrong);
                unreadable.insert(text.path.to_string());
                Draft::empty(text)
            }));
        }
        if unreadable.is_empty() {
            return Tree::build(drafts);
        }
        let importing = order::importing(&drafts, unreadable);
        let more = Tree::build(drafts).err().unwrap_or_default();
        // Importers of a file with errors miss its declarations. That is not their error.
        errors.extend(
            more.into_iter().filter(|error| {
                !(error.may_be_consequence() && importing.contains(&error.at.path))
            }),
        );
        Err(sorted(errors))
    }

    /// Builds the tree of these drafts.
    ///
    /// # Errors
    /// Fails like [`Tree::parse`], except for syntax errors.
    pub fn build(drafts: Vec<Draft>) -> Result<Tree, Vec<Error>> {
        let deep = limits::packages(&drafts);
        if !deep.is_empty() {
            return Err(sorted(deep));
        }
        let (drafts, mut errors) = order::sort(drafts);
        let (names, more) = names::NameTable::declare(&drafts);
        errors.extend(more);
        let (schema, more) = options::Schema::of(&drafts, &names);
        errors.extend(more);
        let built: Vec<_> = (0..drafts.len())
            .into_par_iter()
            .map(|index| element::build(&drafts, index, &names, &schema))
            .collect();
        let mut tree = Tree {
            names: names.into_symbols(),
            ..Tree::default()
        };
        for (parts, more) in built {
            errors.extend(more);
            parts.append_to(&mut tree);
        }
        errors.extend(check::all(&tree));
        if errors.is_empty() {
            Ok(tree)
        } else {
            Err(sorted(errors))
        }
    }
}

fn sorted(mut errors: Vec<Error>) -> Vec<Error> {
    errors.sort_by(|a, b| (&a.at, a.reason.to_string()).cmp(&(&b.at, b.reason.to_string())));
    errors.dedup();
    errors
}
