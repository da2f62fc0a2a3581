//! Which server is asked for a name (gRFC A47).

use oxds_core::ads::{Reason, WatchError};
use oxds_types::{Kind, ResourceName};

use crate::bootstrap::{Bootstrap, Server};

/// The most wanted server of the name's authority; names without one belong to the top-level servers.
///
/// The error is for the watcher of this name alone; nobody is asked (C-43, C-44, C-45).
pub(super) fn server<'a>(
    bootstrap: &'a Bootstrap,
    kind: &Kind,
    name: &str,
) -> Result<&'a Server, WatchError> {
    let error = |reason, what: &str| {
        let node = &bootstrap.node.id;
        let text = format!("{} {name:?} {what} [node {node:?}]", kind.message());
        WatchError::new(reason, text)
    };
    let parsed = ResourceName::parse(name)
        .map_err(|fault| error(Reason::Invalid, &format!("is badly named: {fault}")))?;
    let own = match parsed {
        ResourceName::Legacy(_) => None,
        ResourceName::Xdstp(name) if name.message != kind.message() => {
            let what = format!(
                "is badly named: its name says that it is a {}",
                name.message
            );
            return Err(error(Reason::Invalid, &what));
        }
        ResourceName::Xdstp(name) => match bootstrap.authorities.get(&name.authority) {
            Some(authority) => authority.servers.first(),
            None => {
                let known: Vec<_> = bootstrap.authorities.keys().collect();
                let what = format!(
                    "cannot be had: unknown authority {:?}: the bootstrap's authorities are {known:?}",
                    name.authority
                );
                return Err(error(Reason::Unreachable, &what));
            }
        },
    };
    own.or(bootstrap.servers.first())
        .ok_or_else(|| error(Reason::Unreachable, "cannot be had: there is no server"))
}
