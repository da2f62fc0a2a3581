//! Small YAML files of settings: authorization rules, node groups, tests of routes, exceptions of the API checker.
//!
//! **Internal to oxds; no stability is promised.** Its version stays 0.0.x. `oxds-types` re-exports `Position`, which
//! stands in errors about files.
//!
//! They are read into types that derive [`serde::Deserialize`]. Errors have a position, and text that does not require
//! knowledge of the parser. Reading has two steps: the parser makes a tree of nodes with positions, and the tree is
//! read into the type. So the parser is compiled once, and not for each type: it is large.
//!
//! ```
//! use oxds_settings::Located;
//!
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct File {
//!     names: Vec<Located<String>>,
//! }
//!
//! let file: File = oxds_settings::read(b"names:\n- a\n- b\n").unwrap();
//! assert_eq!(file.names[1].value, "b");
//! assert_eq!(file.names[1].position.to_string(), "3:3");
//!
//! let error = oxds_settings::read::<File>(b"names: [a]\nnamez: [b]\n").unwrap_err();
//! assert_eq!(error.position.unwrap().to_string(), "2:1");
//! assert_eq!(error.to_string(), "unknown field `namez`, expected one of names");
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod deserialize;
mod error;
mod limits;
mod located;
mod node;
mod position;
mod scalar;
#[cfg(test)]
mod tests;

use serde::de::value::UnitDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};

use node::Value;

pub use error::SettingsError;
pub use located::Located;
pub use position::Position;
pub use scalar::Scalar;

/// Reads the one document of a file. An empty file is a null: `None` for an optional type.
///
/// # Errors
/// The text is not UTF-8, not YAML, empty, has more than one document, or does not have the form of `T`.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, SettingsError> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        SettingsError {
            position: Some(Position::after(&String::from_utf8_lossy(before))),
            reason: "not UTF-8".to_owned(),
        }
    })?;
    // The parser skips a byte order mark, and then counts bytes from behind it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let node = node::parse(text)?;
    if node.value == Value::Null {
        let nothing: UnitDeserializer<SettingsError> = ().into_deserializer();
        return T::deserialize(nothing).map_err(|_| SettingsError {
            position: Some(Position::after(text)),
            reason: "the file is empty".to_owned(),
        });
    }
    T::deserialize(&node)
}
