//! Audit loggers of an RBAC filter (gRFC A59).

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::rbac::AuditLoggingOptions;
use envoy_types::pb::envoy::config::rbac::v3::rbac::audit_logging_options::{
    AuditCondition as ConditionProto, AuditLoggerConfig,
};

use crate::rbac::{AuditCondition, AuditLogger};
use crate::resource::Invalid;
use crate::resource::extension::{ExtensionConfig, Extensions};
use crate::resource::invalid::Within;

/// The message that configures the built-in logger, and its name in a `TypedStruct`.
const STDOUT: [&str; 2] = [
    "envoy.extensions.rbac.audit_loggers.stream.v3.StdoutAuditLog",
    "stdout_logger",
];

/// Audit logging of a filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Audit {
    pub(super) condition: AuditCondition,
    pub(super) targets: Box<[AuditTarget]>,
}

/// Target of audit events.
#[derive(Debug, Clone, PartialEq)]
pub enum AuditTarget {
    /// Standard output, as one line of JSON per event. The driver writes it.
    Stdout,
    /// A logger that the program has added.
    Custom(CustomLogger),
}

/// Logger that the program has added. Equal to another one if both were made of the same configuration.
#[derive(Clone)]
pub struct CustomLogger {
    config: ExtensionConfig,
    logger: Arc<dyn AuditLogger>,
}

impl CustomLogger {
    /// Returns the logger.
    #[must_use]
    pub fn logger(&self) -> &dyn AuditLogger {
        &*self.logger
    }
}

impl PartialEq for CustomLogger {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl fmt::Debug for CustomLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomLogger")
            .field(&self.config.type_name)
            .finish()
    }
}

impl Audit {
    pub(super) fn from_proto(
        proto: &AuditLoggingOptions,
        extensions: &Extensions,
    ) -> Result<Self, Invalid> {
        let condition = match ConditionProto::try_from(proto.audit_condition) {
            Ok(ConditionProto::None) => AuditCondition::Never,
            Ok(ConditionProto::OnDeny) => AuditCondition::OnDeny,
            Ok(ConditionProto::OnAllow) => AuditCondition::OnAllow,
            Ok(ConditionProto::OnDenyAndAllow) => AuditCondition::OnDenyAndAllow,
            Err(_) => return Err(Invalid::new("is unknown").at("audit_condition")),
        };
        let mut targets = Vec::new();
        for (index, config) in proto.logger_configs.iter().enumerate() {
            targets.extend(target(config, extensions).within_index("logger_configs", index)?);
        }
        Ok(Self {
            condition,
            targets: targets.into(),
        })
    }
}

/// Returns `None` for a logger that is ignored.
fn target(
    proto: &AuditLoggerConfig,
    extensions: &Extensions,
) -> Result<Option<AuditTarget>, Invalid> {
    const FIELD: &str = "audit_logger.typed_config";
    let logger = proto.audit_logger.as_ref();
    let Some(any) = logger.and_then(|logger| logger.typed_config.as_ref()) else {
        return Err(Invalid::new("must be set").at(FIELD));
    };
    let config = ExtensionConfig::from_any(any).within(FIELD)?;
    if STDOUT.contains(&&*config.type_name) {
        return Ok(Some(AuditTarget::Stdout));
    }
    match extensions.audit_logger(&config) {
        Some(logger) => {
            let logger = logger.within(FIELD)?;
            Ok(Some(AuditTarget::Custom(CustomLogger { config, logger })))
        }
        None if proto.is_optional => Ok(None),
        None => {
            let rule = format!("{:?} is not supported", config.type_name);
            Err(Invalid::new(rule).at(FIELD))
        }
    }
}
