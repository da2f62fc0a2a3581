//! `xds:` targets: the listener that a channel watches, and the authority of its RPCs.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};

use crate::bootstrap::Bootstrap;
use crate::bootstrap::template::{PATH_SEGMENT, encode, fill};

/// Characters that an authority must escape: an IPv6 address in it has brackets.
const AUTHORITY: &AsciiSet = &PATH_SEGMENT.remove(b'[').remove(b']');

/// Target of a channel: `xds:service`, `xds:///service` or `xds://authority/service`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    authority: Option<String>,
    service: String,
}

/// Reason why a target is unusable. The caller must fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The target has another form.
    #[error("malformed xDS target {target:?}: {reason}")]
    Malformed {
        /// Target as given.
        target: String,
        /// Rule that the target breaks.
        reason: &'static str,
    },
    /// The bootstrap does not have the target's authority. The top-level servers are not used instead (gRFC A47, C-38).
    #[error("{target}: unknown authority {authority:?}, expected one of {known:?}")]
    UnknownAuthority {
        /// Target as given.
        target: String,
        /// Authority of the target.
        authority: String,
        /// Authorities of the bootstrap.
        known: Vec<String>,
    },
}

impl Target {
    /// Parses a target. No port is added (C-37).
    ///
    /// # Errors
    /// [`TargetError::Malformed`].
    pub fn parse(target: &str) -> Result<Self, TargetError> {
        let malformed = |reason| TargetError::Malformed {
            target: target.to_owned(),
            reason,
        };
        let rest = target
            .strip_prefix("xds:")
            .ok_or_else(|| malformed("must begin with xds:"))?;
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
            None => ("", rest.strip_prefix('/').unwrap_or(rest)),
        };
        if path.is_empty() {
            return Err(malformed("must name a service"));
        }
        // RFC 3986: a target is a URI, so its percent-encoding is decoded first.
        let decode = |part: &str| {
            let text = percent_decode_str(part).decode_utf8();
            text.map(Cow::into_owned)
                .map_err(|_| malformed("percent-encoded bytes must be UTF-8"))
        };
        Ok(Self {
            authority: Some(decode(authority)?).filter(|authority| !authority.is_empty()),
            service: decode(path)?,
        })
    }

    /// Returns the authority that selects the virtual host, which is also the `:authority` of RPCs (C-41).
    #[must_use]
    pub fn data_plane_authority(&self) -> String {
        utf8_percent_encode(&self.service, AUTHORITY).to_string()
    }

    /// Returns the name of the listener to watch (gRFC A47).
    ///
    /// # Errors
    /// [`TargetError::UnknownAuthority`].
    pub fn listener_name(&self, bootstrap: &Bootstrap) -> Result<String, TargetError> {
        let Some(authority) = &self.authority else {
            return Ok(fill(&bootstrap.listener_template, &self.service));
        };
        // gRFC A47: the default servers are not used instead (C-38).
        let Some(known) = bootstrap.authorities.get(authority) else {
            return Err(TargetError::UnknownAuthority {
                target: self.to_string(),
                authority: authority.clone(),
                known: bootstrap.authorities.keys().cloned().collect(),
            });
        };
        Ok(match &known.listener_template {
            Some(template) => fill(template, &self.service),
            // gRFC A47: the default template of an authority is its xdstp listener (C-31).
            None => {
                let authority = encode(authority);
                fill(
                    &format!("xdstp://{authority}/envoy.config.listener.v3.Listener/%s"),
                    &self.service,
                )
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "xds://{}/{}",
            self.authority.as_deref().unwrap_or_default(),
            self.service
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap(json: &str) -> Bootstrap {
        Bootstrap::from_json(json).unwrap()
    }

    const PLAIN: &str =
        r#"{"xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]}"#;

    #[test]
    fn c37_short_and_long_targets_name_same_listener() {
        for target in ["xds:shop", "xds:///shop", "xds:/shop"] {
            let name = Target::parse(target)
                .unwrap()
                .listener_name(&bootstrap(PLAIN))
                .unwrap();
            assert_eq!(name, "shop", "{target}");
        }
    }

    #[test]
    fn c38_unknown_authority_is_error() {
        let error = Target::parse("xds://a/shop")
            .unwrap()
            .listener_name(&bootstrap(PLAIN))
            .unwrap_err();
        assert!(
            error.to_string().contains("unknown authority \"a\""),
            "{error}"
        );
    }

    #[test]
    fn c41_data_plane_authority_is_percent_encoded_path() {
        for target in ["xds:///a/b c", "xds:///a/b%20c", "xds:a%2fb c"] {
            let target = Target::parse(target).unwrap();
            assert_eq!(target.data_plane_authority(), "a%2Fb%20c", "{target}");
        }
    }

    #[test]
    fn c31_c39_default_authority_template_is_xdstp() {
        let json = r#"{"authorities":{"a b":{}},
            "xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]}"#;
        let name = Target::parse("xds://a b/x/y z")
            .unwrap()
            .listener_name(&bootstrap(json))
            .unwrap();
        assert_eq!(
            name,
            "xdstp://a%20b/envoy.config.listener.v3.Listener/x/y%20z"
        );
    }

    #[test]
    fn c32_c40_old_style_template_does_not_encode() {
        let json = r#"{"client_default_listener_resource_name_template":"%s|%s",
            "xds_servers":[{"server_uri":"cp:1","channel_creds":[{"type":"insecure"}]}]}"#;
        let name = Target::parse("xds:///a b")
            .unwrap()
            .listener_name(&bootstrap(json))
            .unwrap();
        assert_eq!(name, "a b|a b");
    }

    #[test]
    fn malformed_targets_are_rejected() {
        for (target, rule) in [
            ("dns:///a", "xds:"),
            ("xds:", "name a service"),
            ("xds://a", "name a service"),
            ("xds:///%ff", "be UTF-8"),
        ] {
            let error = Target::parse(target).unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
        }
    }
}
