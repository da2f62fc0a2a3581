//! The report of changes with their fields, bounded: only the changes that are shown are opened.

use oxds_core::preview::{Change, Changes};

use super::fields::Fields;
use super::json::JsonChange;
use super::list::{ChangeRow, table};

/// Fields of a change that are printed as text.
const MAX_FIELDS: usize = 20;
/// Fields of a change in JSON.
const MAX_JSON_FIELDS: usize = 1_000;

/// Option for the length of a report.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Limit {
    /// Print at most N changes, each with at most 20 fields; 0: everything
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Changes, and how many of them are shown.
#[derive(Debug)]
pub(crate) struct ChangeReport<'a> {
    pub(crate) changes: &'a Changes,
    pub(crate) limit: Limit,
}

impl ChangeReport<'_> {
    /// Returns a line for each change, with lines for its fields, and one about what is left out. `clients` returns how
    /// many clients a change is for, if that is known.
    pub(crate) fn text(&self, clients: impl Fn(&Change) -> Option<usize>) -> String {
        let mut text = String::new();
        for change in self.shown() {
            text += &ChangeRow::from(change).line();
            match clients(change) {
                Some(1) => text += ": 1 client",
                Some(count) => text += &format!(": {count} clients"),
                None => {}
            }
            text.push('\n');
            let fields = Fields::of(change);
            let most = self.most_fields(MAX_FIELDS);
            for row in fields.rows.iter().take(most) {
                text += &format!("    {}\n", row.line());
            }
            let more = fields.rows.len().saturating_sub(most);
            if more > 0 {
                text += &format!("    and {more} more fields: --limit 0 prints all\n");
            }
            if let Some(note) = &fields.note {
                text += &format!("    {}\n", crate::table::one_line(note));
            }
        }
        if self.more() > 0 {
            text += &format!("and {} more changes: --limit 0 prints all\n", self.more());
        }
        text
    }

    /// Returns the numbers by type and group, unless there are no changes.
    pub(crate) fn table(&self) -> String {
        if self.changes.is_empty() {
            return String::new();
        }
        let counts = self.changes.counts_by_type().into_iter();
        table(counts.map(|((group, resource_type), counts)| {
            (group.map(|group| group.to_string()), resource_type, counts)
        }))
    }

    /// Returns the changes that are shown, with their fields.
    pub(crate) fn json(&self, clients: impl Fn(&Change) -> Option<usize>) -> Vec<JsonChange> {
        let changes = self.shown().map(|change| {
            let mut fields = Fields::of(change);
            let most = self.most_fields(MAX_JSON_FIELDS);
            let more_fields = fields.rows.len().saturating_sub(most);
            fields.rows.truncate(most);
            JsonChange {
                clients: clients(change),
                fields: fields.rows,
                more_fields,
                note: fields.note,
                ..ChangeRow::from(change).into()
            }
        });
        changes.collect()
    }

    /// Returns the number of changes that are left out.
    pub(crate) fn more(&self) -> usize {
        self.changes.0.len() - self.shown().count()
    }

    fn shown(&self) -> impl Iterator<Item = &Change> {
        let most = match self.limit.limit {
            0 => usize::MAX,
            limit => limit,
        };
        self.changes.0.iter().take(most)
    }

    fn most_fields(&self, most: usize) -> usize {
        match self.limit.limit {
            0 => usize::MAX,
            _ => most,
        }
    }
}
