//! Domain patterns of virtual hosts.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

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
struct DomainRank {
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
    fn rank(&self, authority: &str) -> Option<DomainRank> {
        let partial = |pattern: &str, matches: bool| matches && authority.len() > pattern.len();
        let is_match = match self {
            Self::Exact(name) => **name == *authority,
            Self::Suffix(end) => partial(end, authority.ends_with(&**end)),
            Self::Prefix(start) => partial(start, authority.starts_with(&**start)),
            Self::Any => true,
        };
        is_match.then(|| self.own_rank())
    }

    /// Returns the rank of its matches.
    fn own_rank(&self) -> DomainRank {
        // gRFC A27: exact before suffix before prefix before `*`; of two of one class, the longer one.
        let (class, len) = match self {
            Self::Exact(name) => (3, name.len()),
            Self::Suffix(end) => (2, end.len()),
            Self::Prefix(start) => (1, start.len()),
            Self::Any => (0, 0),
        };
        DomainRank { class, len }
    }
}

/// Returns the domain that matches an authority (in lower case) best, with the value beside it. Of equal matches, the
/// first one wins.
pub(crate) fn best_domain<'a, V: Copy>(
    domains: impl IntoIterator<Item = (V, &'a Domain)>,
    authority: &str,
) -> Option<(V, &'a Domain)> {
    let mut best: Option<(DomainRank, V, &Domain)> = None;
    for (value, domain) in domains {
        match (domain.rank(authority), best) {
            (Some(rank), Some((least, ..))) if rank <= least => {}
            (Some(rank), _) => best = Some((rank, value, domain)),
            (None, _) => {}
        }
    }
    best.map(|(_, value, domain)| (value, domain))
}

/// Values by domain, to be found for one authority after another. Exact domains cost one look-up, however many there
/// are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DomainIndex<V> {
    exact: BTreeMap<Box<str>, V>,
    /// Domains with a `*`, the one with the highest rank first.
    patterns: Vec<(Domain, V)>,
}

impl<V: Copy> DomainIndex<V> {
    /// Makes an index. Of equal domains, the first one counts.
    pub(crate) fn new<'a>(domains: impl IntoIterator<Item = (&'a Domain, V)>) -> Self {
        let mut index = Self {
            exact: BTreeMap::new(),
            patterns: Vec::new(),
        };
        for (domain, value) in domains {
            match domain {
                Domain::Exact(name) => {
                    index.exact.entry(name.clone()).or_insert(value);
                }
                pattern => index.patterns.push((pattern.clone(), value)),
            }
        }
        let patterns = &mut index.patterns;
        patterns.sort_by_key(|(pattern, _)| Reverse(pattern.own_rank()));
        index
    }

    /// Returns the value of the best match with an authority. It allocates only for an authority with upper case.
    pub(crate) fn find(&self, authority: &str) -> Option<V> {
        let authority = if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(authority.to_ascii_lowercase())
        } else {
            Cow::Borrowed(authority)
        };
        if let Some(value) = self.exact.get(&*authority) {
            return Some(*value);
        }
        let mut patterns = self.patterns.iter();
        let found = patterns.find(|(pattern, _)| pattern.rank(&authority).is_some());
        found.map(|(_, value)| *value)
    }
}

/// The pattern, in lower case.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Suffix(end) => write!(f, "*{end}"),
            Self::Prefix(start) => write!(f, "{start}*"),
            Self::Any => f.write_str("*"),
        }
    }
}
