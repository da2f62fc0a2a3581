//! The options of an element, extensions such as `validate.rules` included.

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use super::Docs;

/// The options of an element, as a message of `google.protobuf.FieldOptions` or its like.
///
/// Most elements have none; that costs one pointer. Comments do not count when options are compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options(Option<Box<Inner>>);

#[derive(Debug, Clone)]
struct Inner {
    message: DynamicMessage,
    docs: Vec<(u32, Docs)>,
}

impl PartialEq for Inner {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}

impl Options {
    /// Options that hold `message`.
    #[must_use]
    pub fn new(message: DynamicMessage) -> Options {
        Options(Some(Box::new(Inner {
            message,
            docs: Vec::new(),
        })))
    }

    /// The options with the comments of their statements, by the number of the field or extension that
    /// a statement sets.
    pub(crate) fn documented(mut self, docs: Vec<(u32, Docs)>) -> Options {
        if let Some(inner) = &mut self.0 {
            inner.docs = docs;
        }
        self
    }

    /// The comments of `option` statements, each with the number of the field or extension that it
    /// sets.
    pub fn docs(&self) -> impl Iterator<Item = (u32, &Docs)> {
        let docs = self.0.iter().flat_map(|inner| &inner.docs);
        docs.map(|(number, docs)| (*number, docs))
    }

    /// The message; none when no option is set.
    #[must_use]
    pub fn message(&self) -> Option<&DynamicMessage> {
        self.0.as_deref().map(|inner| &inner.message)
    }

    /// A standard option, by the name of its field: `deprecated`. None when it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let message = self.message()?;
        let field = message.descriptor().get_field_by_name(name)?;
        message
            .fields()
            .find(|(set, _)| set.number() == field.number())
            .map(|(_, value)| value)
    }

    /// A custom option, by the full name of its extension: `validate.rules`. None when it is not set.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<&Value> {
        self.message()?
            .extensions()
            .find(|(extension, _)| extension.full_name() == name)
            .map(|(_, value)| value)
    }

    /// Whether an option or extension of that name is set and true.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        let value = if name.contains('.') {
            self.extension(name)
        } else {
            self.get(name)
        };
        value.and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether `deprecated = true`.
    #[must_use]
    pub fn deprecated(&self) -> bool {
        self.is_true("deprecated")
    }
}
