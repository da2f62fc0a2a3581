//! Building of the elements of one file: resolves names and reads options.

mod clash;
mod field;
mod field_rules;
mod message;
mod options;
mod ranges;
mod service;

use std::collections::HashSet;

use prost::Message as _;
use prost_types::UninterpretedOption;

use super::draft::Draft;
use super::error::{Error, Reason};
use super::features::Features;
use super::names::{Ids, Meaning, NameTable, Wanted};
use super::options::{Context, Schema};
use super::source::Sources;
use crate::model::{
    Docs, Enum, Extension, File, FileId, Import, ImportMode, Message, MessageId, Service, Source,
    Tree,
};

/// Contribution of one file to a tree.
#[derive(Debug)]
pub(super) struct Parts {
    file: File,
    messages: Vec<Message>,
    enums: Vec<Enum>,
    services: Vec<Service>,
    extensions: Vec<Extension>,
}

impl Parts {
    /// Appends the parts to a tree. Files must be appended in order, because ids are indices.
    pub(super) fn append_to(mut self, tree: &mut Tree) {
        tree.files.push(self.file);
        tree.messages.append(&mut self.messages);
        tree.enums.append(&mut self.enums);
        tree.services.append(&mut self.services);
        tree.extensions.append(&mut self.extensions);
    }
}

/// Builds the elements of `drafts[index]`.
pub(super) fn build(
    drafts: &[Draft],
    index: usize,
    names: &NameTable,
    schema: &Schema,
) -> (Parts, Vec<Error>) {
    let draft = &drafts[index];
    let mut builder = Builder {
        draft,
        index,
        sources: Sources::of(draft),
        names,
        schema,
        features: Features::of(draft.syntax),
        path: Vec::new(),
        ids: names.first_ids(index),
        messages: Vec::new(),
        map_entries: HashSet::new(),
        map_field: None,
        enums: Vec::new(),
        services: Vec::new(),
        extensions: Vec::new(),
        errors: Vec::new(),
    };
    let file = builder.file();
    let Builder {
        mut messages,
        mut enums,
        services,
        extensions,
        errors,
        ..
    } = builder;
    // Parents are pushed after their children, but have smaller ids.
    messages.sort_unstable_by_key(|message| message.id);
    enums.sort_unstable_by_key(|declared| declared.id);
    let parts = Parts {
        file,
        messages,
        enums,
        services,
        extensions,
    };
    (parts, errors)
}

struct Builder<'a> {
    draft: &'a Draft,
    index: usize,
    sources: Sources<'a>,
    names: &'a NameTable,
    schema: &'a Schema,
    /// Features of the element that is being built.
    features: Features,
    /// Path of the current element in the descriptor.
    path: Vec<i32>,
    /// Ids of the next elements.
    ids: Ids,
    messages: Vec<Message>,
    /// Synthetic messages of `map` fields in this file.
    map_entries: HashSet<MessageId>,
    /// Path of the map field whose entry is being built.
    map_field: Option<Vec<i32>>,
    enums: Vec<Enum>,
    services: Vec<Service>,
    extensions: Vec<Extension>,
    errors: Vec<Error>,
}

/// Returns `options.uninterpreted_option` and the encoded rest, for any options message.
macro_rules! split {
    ($options:expr) => {
        $options.as_ref().map(|options| {
            (
                options.uninterpreted_option.as_slice(),
                options.encode_to_vec(),
            )
        })
    };
}
use split;

impl<'a> Builder<'a> {
    fn file(&mut self) -> File {
        let draft = self.draft;
        let proto = &draft.proto;
        let package = proto.package();
        let options = self.options(
            8,
            package,
            "google.protobuf.FileOptions",
            split!(proto.options),
        );
        self.features = self.features.with(&options);
        let messages = self.each(4, &proto.message_type, |s, m| s.message(package, m, None));
        let enums = self.each(5, &proto.enum_type, |s, e| s.enumeration(package, e, None));
        let services = self.each(6, &proto.service, |s, service| s.service(package, service));
        self.each(7, &proto.extension, |s, e| s.extension(package, e, None));
        File {
            id: FileId(self.index as u32),
            path: proto.name().into(),
            root: draft.root.clone(),
            display: draft.display.clone(),
            target: draft.target,
            package: package.into(),
            syntax: draft.syntax,
            imports: self.imports(),
            options,
            messages,
            enums,
            services,
            text: draft.text.clone(),
            package_source: self.sources.source(&[2], &[2]),
            syntax_source: self.sources.source(&[12], &[12]),
            option_sources: self.option_sources(),
        }
    }

    fn imports(&self) -> Vec<Import> {
        let proto = &self.draft.proto;
        let import = |(index, path): (usize, &String)| {
            let index = index as i32;
            Some(Import {
                file: FileId(self.names.file_index(path)? as u32),
                mode: match () {
                    () if proto.public_dependency.contains(&index) => ImportMode::Public,
                    () if proto.weak_dependency.contains(&index) => ImportMode::Weak,
                    () => ImportMode::Plain,
                },
                source: self.sources.source(&[3, index], &[3, index]),
            })
        };
        proto
            .dependency
            .iter()
            .enumerate()
            .filter_map(import)
            .collect()
    }

    fn option_sources(&self) -> Vec<(Vec<i32>, Source)> {
        let proto = &self.draft.proto;
        let options = proto.options.iter().flat_map(|o| &o.uninterpreted_option);
        let source = |(index, option): (usize, &UninterpretedOption)| {
            let context = self.context(proto.package());
            let path = self
                .schema
                .path(context, "google.protobuf.FileOptions", option);
            let at = [8, 999, index as i32];
            (path, self.sources.source(&at, &at))
        };
        options.enumerate().map(source).collect()
    }

    /// Builds the elements of a descriptor list; `tag` is the field number of the list.
    fn each<T, U>(&mut self, tag: i32, list: &[T], build: impl Fn(&mut Self, &T) -> U) -> Vec<U> {
        let mut built = Vec::with_capacity(list.len());
        for (index, element) in list.iter().enumerate() {
            self.path.extend([tag, index as i32]);
            built.push(build(self, element));
            self.path.truncate(self.path.len() - 2);
        }
        built
    }

    /// Returns the comments of the statements for the lists `tags` of the current element.
    fn statement_docs(&self, tags: &[i32]) -> Vec<Docs> {
        let each = tags.iter().map(|tag| {
            self.sources
                .docs_of_all(&[&self.path[..], &[*tag]].concat())
        });
        each.flatten().collect()
    }

    fn context<'b>(&self, scope: &'b str) -> Context<'b>
    where
        'a: 'b,
    {
        Context {
            names: self.names,
            file: self.index,
            scope,
        }
    }

    /// Resolves a name, or reports an error at the field `tag` of the current element.
    fn resolve(&mut self, tag: &[i32], scope: &str, name: &str, wanted: Wanted) -> Option<Meaning> {
        match self.names.resolve(self.index, scope, name, wanted) {
            Ok((meaning, _)) => Some(meaning),
            Err(reason) => {
                self.report(tag, reason);
                None
            }
        }
    }

    /// Returns whether the file has a text. A descriptor set was checked by the compiler that made
    /// it, maybe an older one.
    fn is_text(&self) -> bool {
        self.draft.text.is_some()
    }

    /// Reports a violation of a rule at the field `below` of the current element.
    fn rule(&mut self, below: &[i32], why: String) {
        self.report(below, Reason::Rule(why));
    }

    fn report(&mut self, below: &[i32], reason: Reason) {
        let path = [&self.path[..], below].concat();
        // The entry of a map has no position, but the map field has one.
        let map_field = || self.sources.span(self.map_field.as_ref()?);
        let span = self.sources.span(&path);
        let span = span
            .or_else(|| self.sources.span(&self.path))
            .or_else(map_field);
        self.errors.push(Error::new(self.draft, span, reason));
    }

    /// Returns the source position of the current element. Every declaration has its name in field
    /// 1.
    fn source(&self) -> Source {
        let name = [&self.path[..], &[1]].concat();
        self.sources.source(&self.path, &name)
    }
}
