//! Lists of changes, the same for `oxds plan`, `oxds diff` and `oxds publish --dry-run`.

mod fields;
mod json;
mod list;
mod report;

pub(super) use json::JsonChange;
pub(super) use list::totals;
#[cfg(feature = "etcd")]
pub(super) use list::{ChangeRow, table};
pub(super) use report::{ChangeReport, Limit};
