//! The command line: global options, and the list of commands.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::commands::{
    api, bootstrap, call, completions, csds, demo, get, serve, status, validate, wait, watch,
};
use crate::exit::{Exit, Failure};
use crate::log::LogFormat;

const LONG_ABOUT: &str = "\
xDS for people who run it: a control plane over a folder of YAML, and the tools around it.

xDS is how Envoy and gRPC learn where services are and how to reach them. `oxds serve` answers \
them from files; `oxds call` asks as a gRPC client would.";

const AFTER_LONG_HELP: &str = "\
Begin here:
  oxds demo                                    everything in one process, to look at and play with
  oxds validate ./config                       check a folder, as CI would
  oxds serve ./config                          serve it, and follow its changes
  oxds bootstrap grpc --server 127.0.0.1:18000 > bootstrap.json
  GRPC_XDS_BOOTSTRAP=bootstrap.json oxds call xds:///checkout /shop.Checkout/Pay -n 100
  oxds api check                               what this branch changes in a versioned protobuf API

Results go to stdout, logs to stderr.

Exit codes:
  0  done, and all is well
  1  done, and it is not: findings, failed calls, an address in use
  2  not begun: wrong arguments, or an input they name is missing or malformed
  3  `oxds api` only: the protos that were to be judged do not compile

Environment:
  RUST_LOG                    what is logged: `debug`, `oxds_server=debug,info`, …
  NO_COLOR                    set to anything: no colours
  GRPC_XDS_BOOTSTRAP          path of the bootstrap file, for `call`
  GRPC_XDS_BOOTSTRAP_CONFIG   the bootstrap itself, if there is no file";

/// xDS for people who run it
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
    /// The form of log lines on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        // After what the command itself takes.
        display_order = 900
    )]
    log_format: LogFormat,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Validate(validate::Args),
    Bootstrap(bootstrap::Args),
    Call(call::Args),
    Status(status::Args),
    Wait(wait::Args),
    Get(get::Args),
    Watch(watch::Args),
    Csds(csds::Args),
    Demo(demo::Args),
    Api(Box<api::Args>),
    Completions(completions::Args),
}

/// Reads the arguments of the process; help and mistakes are answered here.
pub(crate) fn parse() -> Result<Cli, Exit> {
    parse_from(std::env::args_os())
}

fn parse_from(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    Cli::try_parse_from(arguments).map_err(|error| {
        // A closed stdout or stderr changes nothing about the answer.
        let _ = error.print();
        if error.use_stderr() {
            Exit::Usage
        } else {
            Exit::Success
        }
    })
}

impl Cli {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Serve(args) => {
                crate::log::start(self.log_format, "info");
                serve::run(args)
            }
            Command::Validate(args) => {
                crate::log::start(self.log_format, "warn");
                validate::run(&args)
            }
            Command::Bootstrap(args) => bootstrap::run(&args),
            Command::Call(args) => {
                crate::log::start(self.log_format, "error");
                call::run(&args)
            }
            Command::Status(args) => status::run(&args),
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
            Command::Demo(args) => {
                // The table owns the terminal; it shows by itself what goes wrong.
                crate::log::start(self.log_format, "off");
                demo::run(args)
            }
            Command::Api(args) => api::run(&args),
            Command::Completions(args) => completions::run(&args),
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
    fn every_command_teaches_by_example() {
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

    /// What stands below a heading belongs there; what is of no group stands before all headings.
    #[test]
    fn options_stand_below_the_heading_that_they_belong_to() {
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
    fn help_fits_a_screen_of_a_hundred_columns() {
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
    fn global_options_stand_before_or_after_the_command() {
        assert!(parse("oxds --log-format json validate x").is_ok());
        assert!(parse("oxds validate x --log-format json").is_ok());
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for line in ["oxds bogus", "oxds serve", "oxds validate x --format xml"] {
            assert_eq!(parse(line).err(), Some(Exit::Usage), "{line}");
        }
    }
}
