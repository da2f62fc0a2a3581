//! Configuration of the stateful session filter (gRFC A55, A60).

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
};
use envoy_types::pb::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;

use crate::lb::SessionConfig;
use crate::resource::Invalid;
use crate::resource::convert::duration;
use crate::resource::extension::ExtensionConfig;
use crate::resource::invalid::Within;

pub(super) const SESSION: &str =
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSession";
pub(super) const SESSION_PER_ROUTE: &str =
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";
const COOKIE: &str = "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState";

/// Configuration of a session; `None` without session state: then the filter does nothing.
type Session = Option<Arc<SessionConfig>>;

/// Reads the configuration of a listener's filter.
pub(super) fn session(config: &ExtensionConfig) -> Result<Session, Invalid> {
    of_proto(&config.decode()?)
}

/// Reads the session of a virtual host, a route or a weighted cluster (gRFC A60).
pub(super) fn session_override(config: &ExtensionConfig) -> Result<Session, Invalid> {
    let proto: StatefulSessionPerRoute = config.decode()?;
    match &proto.r#override {
        Some(Override::StatefulSession(session)) => of_proto(session).within("stateful_session"),
        // As in gRPC, whatever the value of `disabled`: without a session, the route has none.
        Some(Override::Disabled(_)) | None => Ok(None),
    }
}

fn of_proto(proto: &StatefulSession) -> Result<Session, Invalid> {
    let Some(state) = &proto.session_state else {
        return Ok(None);
    };
    let config = state.typed_config.as_ref();
    let config = config.ok_or_else(|| Invalid::new("must be set").at("typed_config"));
    let cookie = config
        .and_then(|any| ExtensionConfig::from_any(any).within("typed_config"))
        .and_then(|config| of_state(&config).within("typed_config"));
    let session = cookie.within("session_state")?;
    Ok(Some(Arc::new(session)))
}

fn of_state(config: &ExtensionConfig) -> Result<SessionConfig, Invalid> {
    // gRFC A55: only the session state in a cookie is supported.
    if &*config.type_name != COOKIE {
        let rule = format!("{:?} is not supported", config.type_name);
        return Err(Invalid::new(rule));
    }
    let state: CookieBasedSessionState = config.decode()?;
    let cookie = state
        .cookie
        .ok_or_else(|| Invalid::new("must be set").at("cookie"))?;
    if cookie.name.is_empty() {
        return Err(Invalid::new("must not be empty").at("cookie.name"));
    }
    let ttl = cookie.ttl.as_ref().map(duration).transpose();
    let session = SessionConfig {
        ttl: ttl.within("cookie.ttl")?.unwrap_or_default(),
        cookie: cookie.name,
        path: cookie.path,
    };
    for (field, value) in [
        ("cookie.name", &session.cookie),
        ("cookie.path", &session.path),
    ] {
        // Our own rule: the header of the response could not be written.
        if !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(Invalid::new("must be printable ASCII").at(field));
        }
    }
    Ok(session)
}
