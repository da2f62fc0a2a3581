//! The command line: global options, and the list of commands.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "etcd")]
use crate::commands::publish;
use crate::commands::{
    api, bootstrap, call, completions, csds, demo, deprecations, diff, get, man, plan, route,
    runtime, serve, status, validate, wait, watch,
};
use crate::exit::{Exit, Failure};
use crate::log::LogFormat;

const LONG_ABOUT: &str = "\
xDS control plane and tools: serve a folder of YAML to Envoy and gRPC clients, check it, inspect it.

Envoy and gRPC get the addresses of services and the rules to reach them over xDS. `oxds serve` is a \
control plane that sends them the content of files; `oxds call` is a gRPC client.";

const AFTER_LONG_HELP: &str = "\
Start here:
  oxds demo                                    control plane, backends and clients in one process
  oxds validate ./config                       check a folder, for example in CI
  oxds plan ./config                           what would change, for which clients, in which order
  oxds serve ./config                          serve a folder, and follow its changes
  oxds bootstrap grpc --server 127.0.0.1:18000 > bootstrap.json
  GRPC_XDS_BOOTSTRAP=bootstrap.json oxds call xds:///checkout /shop.Checkout/Pay -n 100
  oxds api check                               check the changes of a branch in a versioned API

Results go to stdout, logs to stderr.

Exit codes:
  0  completed without errors
  1  completed with findings, failed calls, or an address in use
  2  not started: wrong arguments, or an input file or folder is missing or malformed
  3  `oxds api` only: the protos to check do not compile

Environment:
  RUST_LOG                    log filter: `debug`, `oxds_server=debug,info`, …
  NO_COLOR                    disables colours if set to any text
  GRPC_XDS_BOOTSTRAP          path of the bootstrap file, for `call`
  GRPC_XDS_BOOTSTRAP_CONFIG   bootstrap as JSON, for `call`, without GRPC_XDS_BOOTSTRAP";

/// xDS control plane and tools
#[derive(Debug, Parser)]
#[command(
    name = "oxds",
    version,
    long_about = LONG_ABOUT,
    after_long_help = AFTER_LONG_HELP,
    arg_required_else_help = true,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// Format of log lines on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        // Last in the help, after the options of the command.
        display_order = 900
    )]
    log_format: LogFormat,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Validate(validate::Args),
    Plan(Box<plan::Args>),
    Diff(Box<diff::Args>),
    #[cfg(feature = "etcd")]
    Publish(Box<publish::Args>),
    Deprecations(Box<deprecations::Args>),
    Bootstrap(bootstrap::Args),
    Call(call::Args),
    Status(status::Args),
    Runtime(runtime::Args),
    Wait(wait::Args),
    Get(get::Args),
    Watch(watch::Args),
    Csds(csds::Args),
    Route(Box<route::Args>),
    Demo(demo::Args),
    Api(Box<api::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

/// Parses the arguments of the process. Prints help and usage errors, and returns their exit code.
pub(crate) fn parse() -> Result<Cli, Exit> {
    parse_from(std::env::args_os())
}

fn parse_from(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // With this option of `plan`, exit code 2 means changes.
    let is_detailed = arguments.iter().any(|one| one == "--detailed-exitcode");
    Cli::try_parse_from(arguments).map_err(|error| {
        // A closed stdout or stderr does not change the exit code.
        let _ = error.print();
        if !error.use_stderr() {
            Exit::Success
        } else if is_detailed {
            Exit::Negative
        } else {
            Exit::Usage
        }
    })
}

impl Cli {
    /// Starts logging with the command's default filter, and runs the command.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Serve(args) => {
                crate::log::start(self.log_format, "info");
                serve::run(*args)
            }
            Command::Validate(args) => {
                crate::log::start(self.log_format, "warn");
                validate::run(&args)
            }
            Command::Plan(args) => {
                crate::log::start(self.log_format, "warn");
                plan::run(&args)
            }
            Command::Diff(args) => {
                crate::log::start(self.log_format, "warn");
                diff::run(&args)
            }
            #[cfg(feature = "etcd")]
            Command::Publish(args) => {
                crate::log::start(self.log_format, "info");
                publish::run(&args)
            }
            Command::Deprecations(args) => {
                crate::log::start(self.log_format, "warn");
                deprecations::run(&args)
            }
            Command::Bootstrap(args) => bootstrap::run(&args),
            Command::Call(args) => {
                crate::log::start(self.log_format, "error,oxds::fields=warn");
                call::run(&args)
            }
            Command::Status(args) => status::run(&args),
            Command::Runtime(args) => runtime::run(&args),
            Command::Wait(args) => wait::run(&args),
            Command::Get(args) => {
                crate::log::start(self.log_format, "warn");
                get::run(&args)
            }
            Command::Watch(args) => {
                crate::log::start(self.log_format, "warn");
                watch::run(&args)
            }
            Command::Csds(args) => csds::run(&args),
            Command::Route(args) => {
                crate::log::start(self.log_format, "warn");
                route::run(&args)
            }
            Command::Demo(args) => {
                // Log lines would break the live table, which shows errors itself.
                crate::log::start(self.log_format, "off");
                demo::run(args)
            }
            Command::Api(args) => api::run(&args),
            Command::Completions(args) => completions::run(&args, Cli::command()),
            Command::Man(args) => man::run(&args, Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, Exit> {
        parse_from(line.split(' ').map(OsString::from))
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_help_has_examples() {
        for command in Cli::command().get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(
                help.contains("Examples:"),
                "{name} has no examples:\n{help}"
            );
            assert!(help.contains(&format!("  oxds {name}")), "{name}:\n{help}");
        }
    }

    /// Security options have the heading "Security", and other options do not.
    #[test]
    fn security_options_are_under_their_heading() {
        let security = [
            "tls",
            "ca",
            "cert",
            "key",
            "insecure",
            "authorize",
            "tls-cert",
            "tls-key",
            "tls-client-ca",
        ];
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            for option in command.get_arguments() {
                let long = option.get_long().unwrap_or_default();
                let heading = option.get_help_heading();
                let is_security = security.contains(&long) && name != "api";
                assert_eq!(heading == Some("Security"), is_security, "{name} --{long}");
            }
        }
    }

    #[test]
    fn help_lines_have_at_most_100_columns() {
        let mut root = Cli::command();
        let mut helps = vec![root.render_long_help().to_string()];
        helps.extend(
            root.get_subcommands_mut()
                .map(|c| c.render_long_help().to_string()),
        );
        for line in helps.iter().flat_map(|help| help.lines()) {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn global_options_parse_before_and_after_command() {
        assert!(parse("oxds --log-format json validate x").is_ok());
        assert!(parse("oxds validate x --log-format json").is_ok());
    }

    #[test]
    fn wrong_arguments_never_look_like_changes() {
        let line = "oxds plan --detailed-exitcode x --bogus";
        assert_eq!(parse(line).err(), Some(Exit::Negative));
    }

    #[test]
    fn wrong_arguments_are_usage_errors() {
        for line in ["oxds bogus", "oxds serve", "oxds validate x --format xml"] {
            assert_eq!(parse(line).err(), Some(Exit::Usage), "{line}");
        }
    }
}
