//! The options of an element, extensions such as `validate.rules` included.

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

/// The options of an element, as a message of `google.protobuf.FieldOptions` or its like.
///
/// Most elements have none; that costs one pointer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options(Option<Box<DynamicMessage>>);

impl Options {
    /// Options that hold `message`.
    #[must_use]
    pub fn new(message: DynamicMessage) -> Options {
        Options(Some(Box::new(message)))
    }

    /// The message; none when no option is set.
    #[must_use]
    pub fn message(&self) -> Option<&DynamicMessage> {
        self.0.as_deref()
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
