//! A change as JSON. Later versions may add fields, and do not rename any.

use serde::Serialize;

use super::fields::FieldRow;
use super::list::{ChangeRow, word};

/// A change.
#[derive(Debug, Serialize)]
pub(crate) struct JsonChange {
    pub(super) change: &'static str,
    pub(super) group: Option<String>,
    /// Full name of the message; absent for a group itself.
    #[serde(rename = "type")]
    pub(super) resource_type: Option<String>,
    pub(super) name: String,
    /// Number of connected clients that have the resource, or will get it; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clients: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<FieldRow>,
    /// Number of fields that are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) more_fields: usize,
    /// Why the fields do not say everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

impl From<ChangeRow> for JsonChange {
    fn from(row: ChangeRow) -> Self {
        Self {
            change: word(row.kind),
            group: row.group,
            resource_type: row.resource_type.map(|of| of.message().to_owned()),
            name: row.name,
            clients: None,
            fields: Vec::new(),
            more_fields: 0,
            note: None,
        }
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
