//! `tidegate sync`: one operation, from its manifests to its result.

use tidegate_executor::Targets;

use super::{finish, plan};
use crate::args::SyncArgs;
use crate::clusters;
use crate::drive::{self, Waiting};
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::Printer;
use crate::progress::Progress;
use crate::request;
use crate::session::Session;
use crate::signals::Signals;
use crate::state_dir::StateDir;

pub async fn run(args: &SyncArgs, printer: &Printer) -> Result<Ended, CliError> {
    let manifests = input::load(&args.source.paths)?;
    let state_dir = StateDir::resolve(&args.state)?;
    let chosen = clusters::choose(&args.cluster).await?;
    let request = request::of_sync(args, &chosen, &manifests, printer)?;
    if args.selection.strict {
        let warnings = plan::preview(&request, &manifests, &chosen, &state_dir, printer).await?.plan.warnings;
        if !warnings.is_empty() {
            return Err(CliError::Strict { warnings });
        }
    }
    let mut signals = Signals::listen()?;
    let session = Session::open(&state_dir, chosen.into(), printer).await?;
    let targets = Targets { targets: manifests.targets, warnings: Vec::new() };
    let mut progress = Progress::new(printer, 1);
    let events = session.engine.events();
    let waited = match session.engine.submit(request, targets).await {
        Ok(operation) => {
            let operations = vec![operation];
            let waiting =
                Waiting { engine: &session.engine, events, operations, timeout: args.waiting.timeout };
            drive::wait(waiting, &mut signals, &mut progress).await
        }
        Err(error) => Err(error.into()),
    };
    let stopped = session.close(args.waiting.history, &mut signals).await;
    let waited = waited?;
    stopped?;
    finish::report(waited, args.waiting.output, &state_dir, printer)
}
