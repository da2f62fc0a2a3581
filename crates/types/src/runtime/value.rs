//! Values of runtime keys.

use std::fmt;

/// The value of a key, as Envoy reads it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text that has no other form.
    Text(String),
    /// A fraction, `envoy.type.v3.FractionalPercent`.
    Fraction {
        /// Number of cases.
        numerator: u32,
        /// Number of all cases.
        denominator: Denominator,
    },
}

/// Denominator of a fraction, `envoy.type.v3.FractionalPercent.DenominatorType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Denominator {
    /// Percent.
    #[default]
    Hundred,
    /// Hundredths of a percent.
    TenThousand,
    /// Parts per million.
    Million,
}

impl Denominator {
    /// All denominators, in the order of their numbers.
    const ALL: [Self; 3] = [Self::Hundred, Self::TenThousand, Self::Million];

    /// Returns the name in protobuf JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hundred => "HUNDRED",
            Self::TenThousand => "TEN_THOUSAND",
            Self::Million => "MILLION",
        }
    }

    /// Reads the name or the number of protobuf JSON.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().enumerate();
        let found =
            all.find(|(number, one)| one.name() == text || text.parse().ok() == Some(*number));
        found.map(|(_, one)| one)
    }
}

impl Value {
    /// Reads the text of a file, a command line or a query: a number, `true` or `false` in any case, the YAML or JSON
    /// form of a fraction, or else text. Space around the first three is ignored.
    ///
    /// ```
    /// use oxds_types::runtime::{Denominator, Value};
    ///
    /// assert_eq!(Value::from_text("True"), Value::Bool(true));
    /// assert_eq!(Value::from_text("1e3"), Value::Number(1000.0));
    /// assert_eq!(Value::from_text("gold"), Value::Text("gold".to_owned()));
    /// let fraction = Value::Fraction { numerator: 5, denominator: Denominator::TenThousand };
    /// assert_eq!(Value::from_text("{numerator: 5, denominator: TEN_THOUSAND}"), fraction);
    /// ```
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let trimmed = text.trim();
        if let Some(number) = number(trimmed) {
            return Self::Number(number);
        }
        if let Some(bool) = boolean(trimmed) {
            return Self::Bool(bool);
        }
        fraction(trimmed).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Returns the value as a switch: a boolean, or an integer, for which zero is `false`. `None` for other values,
    /// which leave a switch at its default, as in Envoy's `getBoolean`.
    #[must_use]
    pub fn as_flag(&self) -> Option<bool> {
        match self {
            Self::Bool(bool) => Some(*bool),
            Self::Number(number) if number.fract() == 0.0 => Some(*number != 0.0),
            Self::Number(_) | Self::Text(_) | Self::Fraction { .. } => None,
        }
    }

    /// Returns the value as a number; `None` for other values.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bool(_) | Self::Text(_) | Self::Fraction { .. } => None,
        }
    }

    /// Returns the size of the text in bytes.
    pub(super) fn text_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bool(_) | Self::Number(_) | Self::Fraction { .. } => size_of::<Self>(),
        }
    }
}

/// Reads a number. The words that Rust reads as numbers (`inf`, `nan`) are text here.
fn number(text: &str) -> Option<f64> {
    let digit = text.bytes().any(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digit)
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Reads `numerator` and `denominator`, on lines of their own, or in braces as YAML or JSON.
fn fraction(text: &str) -> Option<Value> {
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let mut fields = (None, None);
    for field in inner.unwrap_or(text).split([',', '\n']) {
        if field.trim().is_empty() {
            continue;
        }
        let (name, value) = field.split_once(':')?;
        let plain = |text: &'_ str| text.trim().trim_matches(['"', '\'']).to_owned();
        let (name, value) = (plain(name), plain(value));
        let twice = match &*name {
            "numerator" => fields.0.replace(value.parse().ok()?).is_some(),
            "denominator" => fields.1.replace(Denominator::parse(&value)?).is_some(),
            _ => return None,
        };
        if twice {
            return None;
        }
    }
    // One of the two is enough, as in protobuf JSON.
    if fields == (None, None) {
        return None;
    }
    Some(Value::Fraction {
        numerator: fields.0.unwrap_or_default(),
        denominator: fields.1.unwrap_or_default(),
    })
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(bool) => bool.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Fraction {
                numerator,
                denominator,
            } => write!(
                f,
                "{{numerator: {numerator}, denominator: {}}}",
                denominator.name()
            ),
        }
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}
