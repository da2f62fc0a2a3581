//! Proto files to a [`Tree`]: syntax, names, options, and what a compiler would refuse.
//!
//! ```text
//!   texts ─► text (protox-parse, each file for itself;  ─┐
//!                 edition: respelled for it)             │
//!   descriptor sets ────────────────────────────────────┴─► Draft
//!              │
//!            order    imports found, cycles refused, what each file sees
//!            names    every declaration once, in one table
//!            options  the extensions of *Options, as a small descriptor pool
//!              │
//!           element   names resolved, options read: the elements of the tree
//!            check    numbers and names that collide
//! ```
//!
//! Names are resolved here and not by a descriptor pool, because a pool asks whether *any* file
//! declares the first part of a name, where the language asks whether an *imported* one does:
//! inside `envoy.extensions`, `config.core.v3.Metadata` means `envoy.config.core.v3.Metadata` even
//! while `envoy.extensions.config` exists elsewhere.
//!
//! Every mistake is reported, not only the first, as far as it does not follow from another.

mod check;
mod edition;
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

use std::collections::{HashMap, HashSet};

use prost::bytes::Bytes;
use prost_types::FileDescriptorProto;
use rayon::prelude::*;

pub use error::{Error, Reason};

use crate::model::{Name, Syntax, Tree};

/// A file as it was read, before names and options mean anything.
#[derive(Debug)]
pub struct Draft {
    /// The declarations. Options may be uninterpreted, as in a text, or lie in `options`.
    pub proto: FileDescriptorProto,
    /// See [`File::root`](crate::model::File::root).
    pub root: Name,
    /// The language level, which `proto` cannot say of an edition.
    pub syntax: Syntax,
    /// Encoded options by the path of their field in `proto` (`[4, 0, 7]`: those of the first
    /// message), for files that come from a descriptor set: prost drops their extensions.
    pub options: HashMap<Vec<i32>, Bytes>,
    /// What to show a person.
    pub display: Name,
    /// Whether it is judged, or only imported.
    pub target: bool,
    /// The text, when there is one.
    pub text: Option<Name>,
}

impl Draft {
    /// Stands for a file that could not be read, so that those that import it find it.
    fn empty(text: &Text) -> Draft {
        Draft {
            proto: FileDescriptorProto {
                name: Some(text.path.to_string()),
                ..FileDescriptorProto::default()
            },
            root: Name::default(),
            syntax: Syntax::default(),
            options: HashMap::new(),
            display: text.display.clone(),
            target: text.target,
            text: None,
        }
    }
}

/// A text and the names it goes by.
#[derive(Debug, Clone)]
pub struct Text {
    /// The path by which others import it.
    pub path: Name,
    /// What to show a person.
    pub display: Name,
    /// Whether it is judged, or only imported.
    pub target: bool,
    /// The text, as it came: it may not be UTF-8.
    pub bytes: Bytes,
}

impl Text {
    /// Reads it as far as one file can be read alone.
    ///
    /// # Errors
    /// All mistakes of syntax that the parser can tell apart.
    pub fn read(&self) -> Result<Draft, Vec<Error>> {
        text::read(self)
    }
}

impl Tree {
    /// The tree of these `(path, text)`s, all of them targets. `google/protobuf/*.proto` need not
    /// be among them.
    ///
    /// # Errors
    /// Everything for which a compiler would refuse them, in the order of files and lines.
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

    /// The tree of these texts, read on all cores.
    ///
    /// # Errors
    /// As [`Tree::parse`].
    pub fn read(texts: &[Text]) -> Result<Tree, Vec<Error>> {
        let read = texts.par_iter().map(Text::read).collect();
        Tree::assemble(texts, read)
    }

    /// The tree of texts that were read already; `read` has one for each of `texts`.
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
        // What a file that could not be read declares is missing to others: no mistake of theirs.
        errors.extend(
            more.into_iter()
                .filter(|error| !(error.may_follow() && importing.contains(&error.at.path))),
        );
        Err(sorted(errors))
    }

    /// The tree of these drafts.
    ///
    /// # Errors
    /// As [`Tree::parse`], syntax apart.
    pub fn build(drafts: Vec<Draft>) -> Result<Tree, Vec<Error>> {
        let deep = limits::packages(&drafts);
        if !deep.is_empty() {
            return Err(sorted(deep));
        }
        let (drafts, mut errors) = order::sort(drafts);
        let (names, more) = names::Names::declare(&drafts);
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
