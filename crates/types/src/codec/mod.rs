//! Reads resources from files, and writes them: YAML, JSON, text format and binary.
//!
//! ```text
//!   YAML, JSON ─► document ─► tree ──────┐ canonical: v2 to v3, one encoding
//!                 (shapes)   (messages)  ├─────────────► resource ─► report ─► LoadedResource,
//!   text, binary, ─► protobuf ───────────┘ validate       (Draft)               or errors with positions
//!   a program's message
//!
//!   resources ─► encode ─► YAML, JSON, text, binary
//! ```
//! `document` and `tree` read the events of the JSON or YAML parser straight into messages over serde. They record
//! findings and field paths in a `walk`. A line and a column are looked up only for findings (`position`).
//!
//! | limit | reason |
//! |---|---|
//! | [`Options::max_bytes`] | a file is read into memory |
//! | messages 100 deep, those in an `Any` included | the stack; clients decode no deeper |
//! | nested lists and mappings of a text: 216 | the stack |
//! | nodes from YAML aliases: 20,000, and 8 per byte of the document, but at most 1,000,000 | alias bombs |
//! | 100 errors per document, 400 characters each | the size of logs |

pub(crate) mod canonical;
mod decode;
mod document;
mod encode;
mod envelope;
mod inspector;
mod notice;
mod position;
mod protobuf;
mod reflect;
mod reflect_view;
mod report;
mod resource;
mod tree;
mod value;
mod walk;

pub use decode::{
    DepthError, InvalidMessage, check, check_depth, check_with, decode, inspect, is_blank,
};
pub use encode::{EncodeError, encode};
pub(crate) use encode::{MessageView, scalar};
pub use envelope::{
    RequestError, ResponseError, request_from_json, request_to_json, response_from_json,
    response_to_json,
};
pub use reflect::{Document, DocumentError, descriptor_pool, read_documents, write_documents};
pub use resource::{Format, LoadedResource, Options};

pub use crate::advice::{BrokenRule, GrpcRules};

#[cfg(test)]
mod tests;
