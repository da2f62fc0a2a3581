//! Domain patterns of virtual hosts.

/// Pattern of authorities. Case is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    /// `a.example`
    Exact(Box<str>),
    /// `*.example`; the part that `*` matches is not empty.
    Suffix(Box<str>),
    /// `a.*`; the part that `*` matches is not empty.
    Prefix(Box<str>),
    /// `*`
    Any,
}

/// How well a domain matches an authority; the greater, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DomainRank {
    class: u8,
    len: usize,
}

impl Domain {
    /// Parses a pattern; `None` if it is empty, or has a `*` and neither begins nor ends with one.
    ///
    /// As in Envoy, C-core and grpc-go, only the first or the last character is a wildcard: `*x*` is the suffix `x*`.
    #[must_use]
    pub fn parse(pattern: &str) -> Option<Self> {
        let pattern = pattern.to_ascii_lowercase();
        if pattern.is_empty() {
            return None;
        }
        if !pattern.contains('*') {
            return Some(Self::Exact(pattern.into()));
        }
        match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(""), _) => Some(Self::Any),
            (Some(suffix), _) => Some(Self::Suffix(suffix.into())),
            (None, Some(prefix)) => Some(Self::Prefix(prefix.into())),
            (None, None) => None,
        }
    }

    /// Returns the rank of the match with `authority` (in lower case), or `None` if the domain does not match.
    pub(crate) fn rank(&self, authority: &str) -> Option<DomainRank> {
        let partial = |pattern: &str, matches: bool| matches && authority.len() > pattern.len();
        let rank = |class, len| DomainRank { class, len };
        // gRFC A27: exact before suffix before prefix before `*`; of two of one class, the longer one.
        match self {
            Self::Exact(name) => (**name == *authority).then_some(rank(3, name.len())),
            Self::Suffix(end) => {
                partial(end, authority.ends_with(&**end)).then_some(rank(2, end.len()))
            }
            Self::Prefix(start) => {
                partial(start, authority.starts_with(&**start)).then_some(rank(1, start.len()))
            }
            Self::Any => Some(rank(0, 0)),
        }
    }
}
