//! `cabana tls`: prints what clients need to trust the server.

use crate::commands::Context;
use crate::connection;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana tls ca > ca.pem
  SSL_CERT_FILE=$PWD/ca.pem python3 agent.py            Python, curl, this program
  NODE_EXTRA_CA_CERTS=$PWD/ca.pem node agent.mjs        Node
  sudo cp ca.pem /usr/local/share/ca-certificates/cabana.crt && sudo update-ca-certificates

The server creates it on its first start with tls.mode = \"internal\". Clients that trust it trust
every certificate signed by this server, so install it only where that is intended.";

/// TLS: the certificate authority of a server that issues its own certificates
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Print the certificate authority of the server on this machine, for clients to trust
    #[command(after_help = EXAMPLES)]
    Ca,
}

pub(crate) fn run(command: &Command, context: &Context) -> Outcome {
    let Command::Ca = command;
    let path = connection::local_server()?.ca_file();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let failure = Failure::user_error(format!(
            "there is no certificate authority: {} cannot be read: {error}",
            path.display()
        ));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => failure.hint("run this as the user who runs the server (root)"),
            _ => failure
                .hint("set tls.mode = \"internal\" (or CABANA_TLS_MODE) and start `cabana server`, which creates it"),
        }
    })?;
    context.out.raw(text.as_bytes())?;
    context.out.say(&format!(
        "This is {}. Save it where the clients are, and name the file in SSL_CERT_FILE (Python, curl, cabana)\nor \
         NODE_EXTRA_CA_CERTS (Node); `cabana tls ca --help` has examples.",
        path.display()
    ));
    Ok(0)
}
