//! Layers: the keys of one source.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use envoy_types::pb::google::protobuf::{Struct, Value as ProtoValue, value::Kind};

use super::value::{Denominator, Value};
use crate::text;

/// Number of keys of a layer. An Envoy has some hundred; the limit keeps a mistake, such as a wrong folder, from
/// filling memory.
pub const MAX_KEYS: usize = 100_000;
/// Bytes of a key.
pub const MAX_KEY: usize = 1024;
/// Bytes of a value.
pub const MAX_VALUE: usize = 64 << 10;
/// Bytes of all keys and values of a layer.
pub const MAX_BYTES: usize = 64 << 20;
/// Beginning of the names of environment variables that become keys.
pub const ENVIRONMENT_PREFIX: &str = "GRPC_EXPERIMENTAL_";
/// Depth of a structure. Envoy walks as many folders.
pub(super) const MAX_DEPTH: usize = 16;

/// The keys of one source. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    name: Arc<str>,
    source: Source,
    values: Arc<BTreeMap<String, Value>>,
    bytes: usize,
}

/// Origin of the values of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Environment variables.
    Environment,
    /// Values in a configuration.
    Static,
    /// A file, or a folder in the layout of Envoy's disk layer.
    Disk(PathBuf),
    /// Options of the command line.
    CommandLine,
    /// Requests to the admin endpoint.
    Admin,
    /// The resource of this name (`envoy.service.runtime.v3.Runtime`).
    Rtds(String),
}

/// A key or value that a layer cannot have. The text has no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The key is empty.
    #[error("empty key: expected a name such as envoy.reloadable_features.x")]
    EmptyKey,
    /// The key has more than [`MAX_KEY`] bytes. The value is its beginning.
    #[error("key of {bytes} bytes, {start}…: expected at most {MAX_KEY} bytes")]
    LongKey {
        /// Size of the key.
        bytes: usize,
        /// Beginning of the key.
        start: String,
    },
    /// The value has more than [`MAX_VALUE`] bytes.
    #[error("{key}: value of {bytes} bytes: expected at most {MAX_VALUE} bytes")]
    LongValue {
        /// Key of the value.
        key: String,
        /// Size of the value.
        bytes: usize,
    },
    /// The value has a type that a key cannot have.
    #[error("{key}: {found}: expected a boolean, a number, a string or a fraction")]
    Type {
        /// Key of the value.
        key: String,
        /// Type of the value.
        found: &'static str,
    },
    /// A structure with `numerator` or `denominator` is not a fraction.
    #[error(
        "{key}: not a fraction: expected numerator (an integer) and denominator (HUNDRED, TEN_THOUSAND or MILLION)"
    )]
    Fraction {
        /// Key of the value.
        key: String,
    },
    /// Two values have the same key, for example `a.b` and `b` in `a`.
    #[error("{key}: second value: expected one value per key")]
    Twice {
        /// Key of both values.
        key: String,
    },
    /// The layer has more than [`MAX_KEYS`] keys.
    #[error("more than {MAX_KEYS} keys: expected fewer")]
    ManyKeys,
    /// The layer has more than [`MAX_BYTES`] bytes.
    #[error("keys and values have more than {MAX_BYTES} bytes: expected fewer")]
    ManyBytes,
    /// A structure is nested more than 16 levels deep.
    #[error("{key}: more than {MAX_DEPTH} levels: expected fewer")]
    Deep {
        /// Key of the innermost structure.
        key: String,
    },
}

impl Layer {
    /// Returns a layer without keys.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, source: Source) -> Self {
        Self {
            name: name.into(),
            source,
            values: Arc::default(),
            bytes: 0,
        }
    }

    /// Returns a layer with the variables whose names begin with [`ENVIRONMENT_PREFIX`]: the features that gRPC guards.
    /// A key is the name of a variable. A variable that is larger than a value may be is left out.
    pub fn environment(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut layer = Self::new("environment", Source::Environment);
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            if name.starts_with(ENVIRONMENT_PREFIX) {
                // The limits are for mistakes in files; the system limits the environment.
                let _ = layer.set(name.into_owned(), Value::from_text(&value));
            }
        }
        layer
    }

    /// Returns the unique name of the layer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the origin of the values.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the values by key.
    #[must_use]
    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    /// Returns the layer with one more key, or another value of a key. For values that the program itself sets.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn with(
        mut self,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<Self, LayerError> {
        self.set(key.into(), value.into())?;
        Ok(self)
    }

    /// Returns the layer with the values of a structure, as RTDS and Envoy's static layer have it: nested structures
    /// become dotted keys, a structure with `numerator` or `denominator` a fraction.
    ///
    /// # Errors
    /// A value is a list or null, two values have one key, or a limit is exceeded.
    pub fn with_struct(mut self, values: &Struct) -> Result<Self, LayerError> {
        self.add_struct("", values, 1)?;
        Ok(self)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// A limit is exceeded. The layer is then unchanged.
    pub fn set(&mut self, key: String, value: Value) -> Result<(), LayerError> {
        if key.is_empty() {
            return Err(LayerError::EmptyKey);
        }
        if key.len() > MAX_KEY {
            return Err(LayerError::LongKey {
                bytes: key.len(),
                start: text::line(&key.chars().take(40).collect::<String>()).into_owned(),
            });
        }
        let bytes = value.text_len();
        if bytes > MAX_VALUE {
            return Err(LayerError::LongValue { key, bytes });
        }
        let old = self.values.get(&key);
        if old.is_none() && self.values.len() == MAX_KEYS {
            return Err(LayerError::ManyKeys);
        }
        let old = old.map_or(0, |old| key.len() + old.text_len());
        let total = self.bytes - old + key.len() + bytes;
        if total > MAX_BYTES {
            return Err(LayerError::ManyBytes);
        }
        self.bytes = total;
        Arc::make_mut(&mut self.values).insert(key, value);
        Ok(())
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        if let Some(old) = Arc::make_mut(&mut self.values).remove(key) {
            self.bytes -= key.len() + old.text_len();
        }
    }

    /// Adds a key that the layer must not have yet.
    pub(super) fn add(&mut self, key: String, value: Value) -> Result<(), LayerError> {
        if self.values.contains_key(&key) {
            return Err(LayerError::Twice { key });
        }
        self.set(key, value)
    }

    fn add_struct(
        &mut self,
        prefix: &str,
        values: &Struct,
        depth: usize,
    ) -> Result<(), LayerError> {
        if depth > MAX_DEPTH {
            return Err(LayerError::Deep {
                key: prefix.to_owned(),
            });
        }
        // Sorted: which of several errors is reported must not depend on the order of a hash map.
        let sorted: BTreeMap<_, _> = values.fields.iter().collect();
        for (name, value) in sorted {
            self.add_proto(join(prefix, name), value, depth)?;
        }
        Ok(())
    }

    fn add_proto(
        &mut self,
        key: String,
        value: &ProtoValue,
        depth: usize,
    ) -> Result<(), LayerError> {
        let found = match &value.kind {
            Some(Kind::BoolValue(bool)) => return self.add(key, Value::Bool(*bool)),
            Some(Kind::NumberValue(number)) => return self.add(key, Value::Number(*number)),
            Some(Kind::StringValue(text)) => return self.add(key, Value::from_text(text)),
            Some(Kind::StructValue(fields)) => {
                return match fraction(&key, fields)? {
                    Some(fraction) => self.add(key, fraction),
                    None => self.add_struct(&key, fields, depth + 1),
                };
            }
            Some(Kind::ListValue(_)) => "a list",
            Some(Kind::NullValue(_)) => "null",
            None => "no value",
        };
        Err(LayerError::Type { key, found })
    }
}

/// Returns the key of a value in a structure.
pub(super) fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}.{name}"),
    }
}

/// Reads a structure as a fraction. `None`: the structure has neither field, so its fields are keys.
fn fraction(key: &str, fields: &Struct) -> Result<Option<Value>, LayerError> {
    let fields = &fields.fields;
    let names = ["numerator", "denominator"];
    if !names.iter().any(|name| fields.contains_key(*name)) {
        return Ok(None);
    }
    let invalid = || LayerError::Fraction {
        key: key.to_owned(),
    };
    let known = names.iter().filter(|name| fields.contains_key(**name));
    if known.count() != fields.len() {
        return Err(invalid());
    }
    let text = |name: &str| match &fields.get(name)?.kind {
        Some(Kind::NumberValue(number)) => Some(number.to_string()),
        Some(Kind::StringValue(text)) => Some(text.clone()),
        _ => Some(String::new()),
    };
    let numerator = match text("numerator") {
        Some(text) => text.parse().map_err(|_| invalid())?,
        None => 0,
    };
    let denominator = match text("denominator") {
        Some(text) => Denominator::parse(&text).ok_or_else(invalid)?,
        None => Denominator::default(),
    };
    Ok(Some(Value::Fraction {
        numerator,
        denominator,
    }))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("environment"),
            Self::Static => f.write_str("static"),
            Self::Disk(path) => write!(f, "disk {}", path.display()),
            Self::CommandLine => f.write_str("command line"),
            Self::Admin => f.write_str("admin"),
            Self::Rtds(name) => write!(f, "rtds {name}"),
        }
    }
}
