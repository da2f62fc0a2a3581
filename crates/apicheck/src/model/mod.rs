//! A tree of proto files as data: names are resolved, options are read, and every element has a
//! source position.
//!
//! Elements of one sort are in one list and refer to each other by index ([`MessageId`] …). A rule
//! for every field iterates over one list, and a comparison of two trees copies nothing.

mod element;
mod id;
mod name;
mod options;
mod source;
mod tree;

pub use element::{
    Cardinality, Enum, EnumValue, Extension, Field, Kind, Message, Method, NumberRange, Oneof,
    Reserved, Scalar, Service,
};
pub use id::{EnumId, FileId, MessageId, ServiceId};
pub use name::Name;
pub(crate) use name::json_name;
pub use options::Options;
pub use source::{Docs, FileSpan, Source, Span};
pub use tree::{File, FileSources, Import, ImportMode, Symbol, Syntax, Tree};
