//! Where in a message we are: kept while walking, written down only when something is wrong.

use std::fmt;

/// One step into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into a field. Names live as long as the schemas: for good.
    Field(&'static str),
    /// Into what a text calls so, which is no field.
    Unknown(String),
    /// Into an element of a list.
    Index(usize),
    /// Into a value of a map.
    Key(String),
}

/// `load_assignment.endpoints[0].metadata.filter_metadata["envoy.lb"]`. An `Any` adds no step:
/// the fields of what is in it follow at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    pub(crate) fn push(&mut self, step: Step) {
        self.0.push(step);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            match step {
                Step::Field(name) => write!(f, "{dot}{name}")?,
                Step::Unknown(name) => write!(f, "{dot}{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}
