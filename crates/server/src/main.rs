//! The program `mainstay`.

mod cli;

use mainstay_server::serve::{self, Serve};
use mainstay_server::tls;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), serve)
}

fn serve(arguments: cli::ServeArgs) -> ExitCode {
    let cli::ServeArgs { data, resp, http, tls_cert, tls_key, tls_client_ca, config } = arguments;
    if let Some(config) = config {
        cli::complain(&format!(
            "there are no configuration files yet, so {} is not read: give flags",
            config.display()
        ));
        return ExitCode::from(2);
    }
    let tls = tls::Settings {
        certificate: tls_cert,
        key: tls_key,
        client_ca: tls_client_ca,
        ..tls::Settings::default()
    };
    let served = Serve::new(data, resp.as_deref(), http.as_deref())
        .map(|serve| Serve { tls, ..serve })
        .and_then(|serve| serve::run(&serve, |welcome| println!("{welcome}")));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cli::complain(error.message());
            ExitCode::from(2)
        }
    }
}
