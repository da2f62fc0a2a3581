//! Files on their way to a tree: as a text, and as a parsed draft.

use std::collections::HashMap;

use prost::bytes::Bytes;
use prost_types::FileDescriptorProto;

use crate::model::{Name, Syntax};

/// Parsed file before the resolution of names and options.
#[derive(Debug)]
pub struct Draft {
    /// Declarations. Options are uninterpreted (texts) or in `options` (descriptor sets).
    pub proto: FileDescriptorProto,
    /// Module folder, see [`File::root`](crate::model::File::root).
    pub root: Name,
    /// Language level. `proto` cannot represent editions.
    pub syntax: Syntax,
    /// Encoded options by the path of their field in `proto` (`[4, 0, 7]`: options of the first
    /// message). Only files of descriptor sets have them, because prost drops their extensions.
    pub options: HashMap<Vec<i32>, Bytes>,
    /// Path as shown to people.
    pub display: Name,
    /// Whether the rules apply to it. False for files that are only imported.
    pub target: bool,
    /// Text of the file, if there is one.
    pub text: Option<Name>,
    /// Whether the file is not part of the tree, but known to every compiler.
    pub is_built_in: bool,
}

impl Draft {
    /// Creates a placeholder for a file with errors, so that its importers find it.
    pub(super) fn empty(text: &Text) -> Draft {
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
            is_built_in: false,
        }
    }
}

/// Text of a proto file, and its paths.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Text {
    /// Path by which others import the file.
    pub path: Name,
    /// Path as shown to people.
    pub display: Name,
    /// Whether the rules apply to it. False for files that are only imported.
    pub target: bool,
    /// Contents of the file, which may not be UTF-8.
    pub bytes: Bytes,
}

impl Text {
    /// Returns the text of a target file that people know by its import path.
    #[must_use]
    pub fn new(path: &str, bytes: impl Into<Bytes>) -> Self {
        Self {
            path: path.into(),
            display: path.into(),
            target: true,
            bytes: bytes.into(),
        }
    }
}
