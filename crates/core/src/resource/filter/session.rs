//! Configuration of the stateful session filter (gRFC A55, A60).

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::StatefulSession;
use envoy_types::pb::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;

use crate::resource::Invalid;
use crate::resource::convert::duration;
use crate::resource::extension::ExtensionConfig;
use crate::resource::invalid::Within;

const COOKIE: &str = "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState";

/// Session that a cookie keeps at one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Name of the cookie; not empty.
    pub cookie: String,
    /// `Max-Age` of the cookie; zero for a cookie that ends with its session.
    pub ttl: Duration,
    /// Path of the requests that have the session; empty for all requests.
    pub path: String,
}

impl SessionConfig {
    /// Reads the configuration; `None` if it has no session state: then the filter does nothing.
    pub(super) fn from_proto(proto: &StatefulSession) -> Result<Option<Self>, Invalid> {
        let Some(state) = &proto.session_state else {
            return Ok(None);
        };
        let config = state.typed_config.as_ref();
        let config = config.ok_or_else(|| Invalid::new("must be set").at("typed_config"));
        let cookie = config
            .and_then(|any| ExtensionConfig::from_any(any).within("typed_config"))
            .and_then(|config| Self::from_state(&config).within("typed_config"));
        cookie.within("session_state").map(Some)
    }

    fn from_state(config: &ExtensionConfig) -> Result<Self, Invalid> {
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
        Ok(Self {
            ttl: ttl.within("cookie.ttl")?.unwrap_or_default(),
            cookie: cookie.name,
            path: cookie.path,
        })
    }
}
