//! Which virtual host serves an authority.

use crate::resource::VirtualHost;

/// A pattern of authorities; case does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    /// `a.example`
    Exact(Box<str>),
    /// `*.example`: what stands for `*` is not empty.
    Suffix(Box<str>),
    /// `a.*`: what stands for `*` is not empty.
    Prefix(Box<str>),
    /// `*`
    Any,
}

impl Domain {
    /// Reads a pattern; `None` if it has a `*` that is neither its beginning nor its end, or more than one.
    #[must_use]
    pub fn parse(pattern: &str) -> Option<Self> {
        let pattern = pattern.to_ascii_lowercase();
        let (start, end) = match pattern.split_once('*') {
            None if pattern.is_empty() => return None,
            None => return Some(Self::Exact(pattern.into())),
            Some(parts) => parts,
        };
        match (start, end) {
            ("", "") => Some(Self::Any),
            ("", suffix) if !suffix.contains('*') => Some(Self::Suffix(suffix.into())),
            (prefix, "") => Some(Self::Prefix(prefix.into())),
            _ => None,
        }
    }

    /// How well `authority` (in lower case) fits, if it does: exact before suffix before prefix before any, longer
    /// before shorter (gRFC A27).
    fn fit(&self, authority: &str) -> Option<(u8, usize)> {
        let partial = |pattern: &str, fits: bool| fits && authority.len() > pattern.len();
        match self {
            Self::Exact(name) => (**name == *authority).then_some((3, name.len())),
            Self::Suffix(end) => {
                partial(end, authority.ends_with(&**end)).then_some((2, end.len()))
            }
            Self::Prefix(start) => {
                partial(start, authority.starts_with(&**start)).then_some((1, start.len()))
            }
            Self::Any => Some((0, 0)),
        }
    }
}

/// The virtual host whose domains fit an authority best; the first of those that fit alike.
#[must_use]
pub fn choose_virtual_host(hosts: &[VirtualHost], authority: &str) -> Option<usize> {
    let authority = authority.to_ascii_lowercase();
    let mut best = None;
    for (index, host) in hosts.iter().enumerate() {
        let fit = host
            .domains
            .iter()
            .filter_map(|domain| domain.fit(&authority))
            .max();
        match (fit, best) {
            (Some(fit), Some((least, _))) if fit <= least => {}
            (Some(fit), _) => best = Some((fit, index)),
            (None, _) => {}
        }
    }
    best.map(|(_, index)| index)
}
