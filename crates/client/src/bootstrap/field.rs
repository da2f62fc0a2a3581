//! A JSON value and the path to it, so that every error names its field.

use serde_json::{Map, Value};

/// Error in one field.
pub(super) struct FieldError {
    /// Path of the field, such as `xds_servers[0].server_uri`; empty for the whole document.
    pub(super) path: String,
    /// Rule that the value breaks.
    pub(super) reason: String,
}

/// A value and the path to it.
pub(super) struct JsonField<'a> {
    path: String,
    pub(super) value: Option<&'a Value>,
}

impl<'a> JsonField<'a> {
    /// Returns the whole document.
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            path: String::new(),
            value: Some(value),
        }
    }

    /// Returns a field of an object, present or not.
    pub(super) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Self {
            path,
            value: self.value.and_then(|value| value.get(name)),
        }
    }

    /// Returns a field that is present and not `null`.
    pub(super) fn optional(&self, name: &str) -> Option<Self> {
        Some(self.field(name)).filter(|field| field.present().is_some())
    }

    /// Returns the value, unless it is absent or `null`.
    pub(super) fn present(&self) -> Option<&'a Value> {
        self.value.filter(|value| !value.is_null())
    }

    /// Returns the value as an object.
    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, FieldError> {
        self.value
            .and_then(Value::as_object)
            .ok_or_else(|| self.fault("must be an object"))
    }

    /// Returns the fields of an object whose keys are names.
    pub(super) fn entries(
        &self,
    ) -> Result<impl Iterator<Item = (String, JsonField<'a>)>, FieldError> {
        let keys = self.object()?.keys();
        Ok(keys.map(|key| (key.clone(), self.field(key))))
    }

    /// Returns the items of a list.
    pub(super) fn items(
        &self,
    ) -> Result<impl Iterator<Item = JsonField<'a>> + use<'a>, FieldError> {
        let items = self
            .value
            .and_then(Value::as_array)
            .ok_or_else(|| self.fault("must be a list"))?;
        let path = self.path.clone();
        Ok(items
            .iter()
            .enumerate()
            .map(move |(index, item)| JsonField {
                path: format!("{path}[{index}]"),
                value: Some(item),
            }))
    }

    /// Returns a string field, or `None` if it is absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, FieldError> {
        let Some(field) = self.optional(name) else {
            return Ok(None);
        };
        let text = field.value.and_then(Value::as_str);
        text.map(|text| Some(text.to_owned()))
            .ok_or_else(|| field.fault("must be a string"))
    }

    /// Returns a boolean field, or `None` if it is absent.
    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, FieldError> {
        let Some(field) = self.optional(name) else {
            return Ok(None);
        };
        let boolean = field.value.and_then(Value::as_bool);
        boolean
            .map(Some)
            .ok_or_else(|| field.fault("must be true or false"))
    }

    /// Returns a string field, or the empty string if it is absent.
    pub(super) fn text_or_empty(&self, name: &str) -> Result<String, FieldError> {
        Ok(self.text(name)?.unwrap_or_default())
    }

    /// Returns a string field that protobuf's JSON mapping allows under two names.
    pub(super) fn text_either(&self, name: &str, other: &str) -> Result<String, FieldError> {
        match self.text(name)? {
            Some(text) => Ok(text),
            None => self.text_or_empty(other),
        }
    }

    /// Returns the error that this field breaks a rule.
    pub(super) fn fault(&self, reason: &str) -> FieldError {
        FieldError {
            path: self.path.clone(),
            reason: reason.to_owned(),
        }
    }
}
