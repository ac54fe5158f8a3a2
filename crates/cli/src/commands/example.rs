//! `tidegate example`: something to try things out on, with nothing but the command.

use std::fs;
use std::path::Path;

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_source::commit_folder;

use crate::args::ExampleCommand;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;

/// The folder of the example that is a Git repository.
const REPOSITORY: &str = "repo";
const GIT: &str = ".git";
const FIRST_MESSAGE: &str = "Deploy the fleet";

/// The files of the example, by their places in its folder.
const FLEET: [(&str, &str); 13] = [
    ("README.md", include_str!("../../../../examples/fleet/README.md")),
    ("database.yaml", include_str!("../../../../examples/fleet/database.yaml")),
    ("backend.yaml", include_str!("../../../../examples/fleet/backend.yaml")),
    ("frontend.yaml", include_str!("../../../../examples/fleet/frontend.yaml")),
    ("repo/database/database.yaml", include_str!("../../../../examples/fleet/repo/database/database.yaml")),
    ("repo/backend/migrate.yaml", include_str!("../../../../examples/fleet/repo/backend/migrate.yaml")),
    ("repo/backend/backend.yaml", include_str!("../../../../examples/fleet/repo/backend/backend.yaml")),
    ("repo/frontend/frontend.yaml", include_str!("../../../../examples/fleet/repo/frontend/frontend.yaml")),
    ("shops.yaml", include_str!("../../../../examples/fleet/shops.yaml")),
    ("repo/shops/cart/cart.yaml", include_str!("../../../../examples/fleet/repo/shops/cart/cart.yaml")),
    (
        "repo/shops/catalog/catalog.yaml",
        include_str!("../../../../examples/fleet/repo/shops/catalog/catalog.yaml"),
    ),
    (
        "repo/shops/checkout/checkout.yaml",
        include_str!("../../../../examples/fleet/repo/shops/checkout/checkout.yaml"),
    ),
    (
        "repo/shops/search/search.yaml",
        include_str!("../../../../examples/fleet/repo/shops/search/search.yaml"),
    ),
];

pub fn run(command: &ExampleCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        ExampleCommand::Fleet { folder } => fleet(folder, printer),
        ExampleCommand::Commit { folder, message } => {
            let is_new = !folder.join(GIT).exists();
            match commit(folder, message)? {
                Some(commit) if is_new => {
                    printer.note(&format!(
                        "made a Git repository of {} and committed {commit}",
                        folder.display()
                    ));
                }
                Some(commit) => printer.note(&format!("committed {commit}")),
                None => printer.note("nothing has changed since the last commit"),
            }
            Ok(Ended::Done)
        }
    }
}

fn fleet(folder: &Path, printer: &Printer) -> Result<Ended, CliError> {
    let is_taken = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file();
    if is_taken {
        let place = folder.display();
        return Err(CliError::usage(format!("{place} is there and not empty; name another folder")));
    }
    for (name, content) in FLEET {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|source| CliError::io("make", parent, source))?;
        fs::write(&path, content).map_err(|source| CliError::io("write", &path, source))?;
    }
    commit(&folder.join(REPOSITORY), FIRST_MESSAGE)?;
    printer.note(&format!(
        "wrote three Applications and an ApplicationSet to {0}, and a Git repository to {0}/repo; serve them with `tidegate serve --sim --apps {0}`",
        folder.display()
    ));
    Ok(Ended::Done)
}

/// A checkout of this project holds the example without its Git repository, for none can hold another. Whoever serves it from
/// there has that made.
pub fn complete(folder: &Path, printer: &Printer) -> Result<(), CliError> {
    let repository = folder.join(REPOSITORY);
    let mut deployed =
        FLEET.iter().map(|(name, _)| Path::new(name)).filter(|name| name.starts_with(REPOSITORY));
    if repository.join(GIT).exists() || !deployed.all(|name| folder.join(name).is_file()) {
        return Ok(());
    }
    commit(&repository, FIRST_MESSAGE)?;
    printer.note(&format!("made a Git repository of {}, which is an example's", repository.display()));
    Ok(())
}

fn commit(folder: &Path, message: &str) -> Result<Option<String>, CliError> {
    let seconds = SystemClock.now().as_seconds();
    commit_folder(folder, message, seconds).map_err(|error| CliError::usage(error.to_string()))
}
