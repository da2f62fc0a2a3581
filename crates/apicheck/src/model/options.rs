//! Options of an element, with extensions such as `validate.rules`.

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use super::source::Docs;

/// Options of an element, as a message such as `google.protobuf.FieldOptions`.
///
/// Most elements have no options, which costs one pointer. Comparison ignores comments.
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
    /// Creates options that contain `message`.
    #[must_use]
    pub fn new(message: DynamicMessage) -> Options {
        Options(Some(Box::new(Inner {
            message,
            docs: Vec::new(),
        })))
    }

    /// Adds the comments of the `option` statements, by the number of the field or extension that a
    /// statement sets.
    pub(crate) fn documented(mut self, docs: Vec<(u32, Docs)>) -> Options {
        if let Some(inner) = &mut self.0 {
            inner.docs = docs;
        }
        self
    }

    /// Returns the comments of the `option` statements, each with the number of the field or
    /// extension that it sets.
    pub fn docs(&self) -> impl Iterator<Item = (u32, &Docs)> {
        let docs = self.0.iter().flat_map(|inner| &inner.docs);
        docs.map(|(number, docs)| (*number, docs))
    }

    /// Returns the options message, or `None` if no option is set.
    #[must_use]
    pub fn message(&self) -> Option<&DynamicMessage> {
        self.0.as_deref().map(|inner| &inner.message)
    }

    /// Returns a standard option by field name (`deprecated`), or `None` if it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let message = self.message()?;
        let field = message.descriptor().get_field_by_name(name)?;
        message
            .fields()
            .find(|(set, _)| set.number() == field.number())
            .map(|(_, value)| value)
    }

    /// Returns a custom option by the full name of its extension (`validate.rules`), or `None` if
    /// it is not set.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<&Value> {
        self.message()?
            .extensions()
            .find(|(extension, _)| extension.full_name() == name)
            .map(|(_, value)| value)
    }

    /// Returns whether an option or extension is set to true.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        let value = if name.contains('.') {
            self.extension(name)
        } else {
            self.get(name)
        };
        value.and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns whether `deprecated = true`.
    #[must_use]
    pub fn deprecated(&self) -> bool {
        self.is_true("deprecated")
    }
}
