//! Building of the elements of one file: resolves names and reads options.

mod clash;
mod cursor;
mod declaration;
mod field;
mod field_rules;
mod options;
mod ranges;

use std::collections::HashSet;

use prost::Message as _;
use prost_types::UninterpretedOption;

use self::cursor::Cursor;
use super::draft::Draft;
use super::error::Error;
use super::features::Features;
use super::names::{ExpectedSort, Ids, Meaning, NameTable};
use super::options::{Context, Schema};
use crate::model::{
    Enum, Extension, File, FileId, FileSources, Import, ImportMode, Message, MessageId, Service,
    Source, Tree,
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
        cursor: Cursor::new(draft),
        index,
        names,
        schema,
        features: Features::of(draft.syntax),
        ids: names.first_ids(index),
        messages: Vec::new(),
        map_entries: HashSet::new(),
        enums: Vec::new(),
        services: Vec::new(),
        extensions: Vec::new(),
    };
    let file = builder.file();
    let Builder {
        mut messages,
        mut enums,
        services,
        extensions,
        cursor,
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
    (parts, cursor.errors)
}

struct Builder<'a> {
    cursor: Cursor<'a>,
    index: usize,
    names: &'a NameTable,
    schema: &'a Schema,
    /// Features of the element that is being built.
    features: Features,
    /// Ids of the next elements.
    ids: Ids,
    messages: Vec<Message>,
    /// Synthetic messages of `map` fields in this file.
    map_entries: HashSet<MessageId>,
    enums: Vec<Enum>,
    services: Vec<Service>,
    extensions: Vec<Extension>,
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
        let draft = self.cursor.draft;
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
        let services = self.each(6, &proto.service, |s, one| s.service(package, one));
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
            sources: FileSources {
                package: self.cursor.sources.source(&[2], &[2]),
                syntax: self.cursor.sources.source(&[12], &[12]),
                options: self.option_sources(),
            },
        }
    }

    fn imports(&self) -> Vec<Import> {
        let proto = &self.cursor.draft.proto;
        let import = |(index, path): (usize, &String)| {
            let index = index as i32;
            Some(Import {
                file: FileId(self.names.file_index(path)? as u32),
                mode: match () {
                    () if proto.public_dependency.contains(&index) => ImportMode::Public,
                    () if proto.weak_dependency.contains(&index) => ImportMode::Weak,
                    () => ImportMode::Plain,
                },
                source: self.cursor.sources.source(&[3, index], &[3, index]),
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
        let proto = &self.cursor.draft.proto;
        let options = proto.options.iter().flat_map(|o| &o.uninterpreted_option);
        let source = |(index, option): (usize, &UninterpretedOption)| {
            let context = self.context(proto.package());
            let path = self
                .schema
                .path(context, "google.protobuf.FileOptions", option);
            let at = [8, 999, index as i32];
            (path, self.cursor.sources.source(&at, &at))
        };
        options.enumerate().map(source).collect()
    }

    /// Builds the elements of a descriptor list; `tag` is the field number of the list.
    fn each<T, U>(&mut self, tag: i32, list: &[T], build: impl Fn(&mut Self, &T) -> U) -> Vec<U> {
        let mut built = Vec::with_capacity(list.len());
        for (index, element) in list.iter().enumerate() {
            self.cursor.path.extend([tag, index as i32]);
            built.push(build(self, element));
            self.cursor.path.truncate(self.cursor.path.len() - 2);
        }
        built
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
    fn resolve(
        &mut self,
        tag: &[i32],
        scope: &str,
        name: &str,
        wanted: ExpectedSort,
    ) -> Option<Meaning> {
        match self.names.resolve(self.index, scope, name, wanted) {
            Ok((meaning, _)) => Some(meaning),
            Err(reason) => {
                self.cursor.report(tag, reason);
                None
            }
        }
    }
}
