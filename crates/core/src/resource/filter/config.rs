//! Configurations of HTTP filters: those of oxds, and those of the program.

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::common::fault::v3::{
    FaultDelay as DelayProto, fault_delay::FaultDelaySecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::{
    FaultAbort as AbortProto, HttpFault, fault_abort::ErrorType,
};
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};

use super::rbac::{RBAC, RbacConfig, rbac};
use super::session::{SESSION, session};
use super::side::Side;
use crate::lb::{AbortStatus, FaultAbort, FaultConfig, FaultDelay, FaultShare, SessionConfig};
use crate::resource::Invalid;
use crate::resource::convert::duration;
use crate::resource::extension::{ExtensionConfig, Extensions, ParsedExtension};
use crate::resource::invalid::Within;

pub(super) const FAULT: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";

/// Configuration of an HTTP filter.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterConfig {
    /// Fault injection (gRFC A33).
    Fault(Arc<FaultConfig>),
    /// Stateful session (gRFC A55); without a configuration the filter does nothing.
    Session(Option<Arc<SessionConfig>>),
    /// Authorization of calls to a server (gRFC A41).
    Rbac(Arc<RbacConfig>),
    /// A filter that the program has added.
    Custom(CustomFilter),
}

/// Configuration of a filter that the program has added. Equal to another one if both were made of the same
/// configuration.
#[derive(Clone)]
pub struct CustomFilter {
    config: ExtensionConfig,
    parsed: ParsedExtension,
}

impl CustomFilter {
    /// Makes a filter of its configuration, and of the value that the parser made of it.
    #[must_use]
    pub fn new(config: ExtensionConfig, parsed: ParsedExtension) -> Self {
        Self { config, parsed }
    }

    /// Returns the value that the parser of the filter made.
    #[must_use]
    pub fn parsed(&self) -> &ParsedExtension {
        &self.parsed
    }

    /// Returns the configuration as it came.
    #[must_use]
    pub fn config(&self) -> &ExtensionConfig {
        &self.config
    }
}

impl PartialEq for CustomFilter {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl fmt::Debug for CustomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomFilter")
            .field(&self.config.type_name)
            .finish()
    }
}

impl FilterConfig {
    /// Reads the configuration of a listener's filter; `None` if the filter is unknown, or not for this side.
    pub(super) fn of_listener(
        config: &ExtensionConfig,
        extensions: &Extensions,
        side: Side,
    ) -> Result<Option<Self>, Invalid> {
        match (&*config.type_name, side) {
            (FAULT, Side::Client) => Ok(Some(fault(config)?)),
            (SESSION, Side::Client) => Ok(Some(Self::Session(session(config)?))),
            (RBAC, Side::Server) => Ok(Some(Self::Rbac(rbac(config, extensions)?))),
            (_, Side::Client) => custom(config, extensions),
            (_, Side::Server) => Ok(None),
        }
    }
}

/// Reads the configuration of an added filter; `None` if the filter is unknown.
pub(super) fn custom(
    config: &ExtensionConfig,
    extensions: &Extensions,
) -> Result<Option<FilterConfig>, Invalid> {
    let Some(parsed) = extensions.http_filter(config) else {
        return Ok(None);
    };
    let filter = CustomFilter::new(config.clone(), parsed?);
    Ok(Some(FilterConfig::Custom(filter)))
}

/// Reads the configuration of the fault filter (gRFC A33).
pub(super) fn fault(config: &ExtensionConfig) -> Result<FilterConfig, Invalid> {
    let proto: HttpFault = config.decode()?;
    let delay = proto.delay.as_ref().map(fault_delay).transpose();
    let abort = proto.abort.as_ref().map(fault_abort).transpose();
    Ok(FilterConfig::Fault(Arc::new(FaultConfig {
        delay: delay.within("delay")?,
        abort: abort.within("abort")?,
        max_active: proto.max_active_faults.map(|max| max.value),
    })))
}

fn fault_delay(proto: &DelayProto) -> Result<FaultDelay, Invalid> {
    let fixed = match &proto.fault_delay_secifier {
        Some(FaultDelaySecifier::FixedDelay(delay)) => Some(duration(delay).within("fixed_delay")?),
        Some(FaultDelaySecifier::HeaderDelay(_)) => None,
        None => return Err(Invalid::new("must have a fixed_delay or a header_delay")),
    };
    let share = share(proto.percentage.as_ref()).within("percentage")?;
    Ok(FaultDelay { fixed, share })
}

fn fault_abort(proto: &AbortProto) -> Result<FaultAbort, Invalid> {
    /// `UNAUTHENTICATED`, the last code.
    const LAST: u32 = 16;
    let fixed = match proto.error_type {
        Some(ErrorType::GrpcStatus(code)) if code > LAST => {
            return Err(Invalid::new("must be a gRPC status code").at("grpc_status"));
        }
        Some(ErrorType::GrpcStatus(code)) => Some(AbortStatus::Grpc(code)),
        Some(ErrorType::HttpStatus(status)) => {
            let status = u16::try_from(status)
                .ok()
                .filter(|s| (200..600).contains(s));
            let rule = || Invalid::new("must be from 200 to 599").at("http_status");
            Some(AbortStatus::Http(status.ok_or_else(rule)?))
        }
        Some(ErrorType::HeaderAbort(_)) => None,
        None => {
            let rule = "must have a grpc_status, an http_status or a header_abort";
            return Err(Invalid::new(rule));
        }
    };
    let share = share(proto.percentage.as_ref()).within("percentage")?;
    Ok(FaultAbort { fixed, share })
}

/// Reads the share of RPCs with a fault; without one, no RPC has the fault.
fn share(percent: Option<&FractionalPercent>) -> Result<FaultShare, Invalid> {
    let Some(percent) = percent else {
        return Ok(FaultShare::NONE);
    };
    let denominator = match DenominatorType::try_from(percent.denominator) {
        Ok(DenominatorType::Hundred) => 100,
        Ok(DenominatorType::TenThousand) => 10_000,
        Ok(DenominatorType::Million) => 1_000_000,
        Err(_) => return Err(Invalid::new("is unknown").at("denominator")),
    };
    Ok(FaultShare {
        numerator: percent.numerator.min(denominator),
        denominator,
    })
}
