//! The option `--runtime`: runtime keys of the command line (V-47).

use oxds_types::runtime::{Layer, Snapshot, Source, Value};

use crate::exit::Failure;

/// Runtime keys of the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RuntimeKeys {
    /// Runtime key and its value: envoy.deprecated_features:NAME=true. Repeatable; wins over other layers
    #[arg(long = "runtime", value_name = "KEY=VALUE")]
    values: Vec<String>,
}

impl RuntimeKeys {
    /// Returns the layer of these keys.
    pub(crate) fn layer(&self) -> Result<Layer, Failure> {
        let mut layer = Layer::new("command line", Source::CommandLine);
        for one in &self.values {
            let Some((key, value)) = one.split_once('=') else {
                return Err(Failure::usage(format_args!(
                    "--runtime {one:?}: expected KEY=VALUE"
                )));
            };
            layer
                .set(key.trim().to_owned(), Value::from_text(value.trim()))
                .map_err(|error| Failure::usage(format_args!("--runtime: {error}")))?;
        }
        Ok(layer)
    }

    /// Returns a runtime with these keys alone.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Failure> {
        Ok(Snapshot::from_layers(vec![self.layer()?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v47_runtime_option_needs_a_key_and_a_value() {
        let args = |values: &[&str]| RuntimeKeys {
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let snapshot = args(&["a.b=true", "a.c = 5"]).snapshot().unwrap();
        assert_eq!(snapshot.flag("a.b"), Some(true));
        assert_eq!(snapshot.get("a.c"), Some(&Value::Number(5.0)));
        for wrong in ["a.b", "=true", ""] {
            assert!(args(&[wrong]).layer().is_err(), "{wrong:?}");
        }
    }
}
