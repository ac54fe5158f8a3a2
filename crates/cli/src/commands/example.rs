//! `tidegate example`: writes files for trying Tidegate without other tools or files.

use std::fs;
use std::path::Path;

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_source::commit_folder;

use crate::args::ExampleCommand;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;

/// Folder of the example that becomes a Git repository.
const REPOSITORY: &str = "repo";
const GIT: &str = ".git";
const FIRST_MESSAGE: &str = "Deploy the fleet";

/// Files of the `fleet` example.
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

/// Files of the `shop` example.
const SHOP: [(&str, &str); 10] = [
    ("README.md", include_str!("../../../../examples/shop/README.md")),
    ("namespace.yaml", include_str!("../../../../examples/shop/namespace.yaml")),
    ("backup.yaml", include_str!("../../../../examples/shop/backup.yaml")),
    ("config.yaml", include_str!("../../../../examples/shop/config.yaml")),
    ("database.yaml", include_str!("../../../../examples/shop/database.yaml")),
    ("migrate.yaml", include_str!("../../../../examples/shop/migrate.yaml")),
    ("backend.yaml", include_str!("../../../../examples/shop/backend.yaml")),
    ("frontend.yaml", include_str!("../../../../examples/shop/frontend.yaml")),
    ("smoke-test.yaml", include_str!("../../../../examples/shop/smoke-test.yaml")),
    ("notify-failure.yaml", include_str!("../../../../examples/shop/notify-failure.yaml")),
];

pub fn run(command: &ExampleCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        ExampleCommand::Shop { folder } => write_shop(folder, printer),
        ExampleCommand::Fleet { folder } => write_fleet(folder, printer),
        ExampleCommand::Commit { folder, message } => {
            let is_new = !folder.join(GIT).exists();
            match commit(folder, message)? {
                Some(commit) if is_new => {
                    printer.note(&format!(
                        "created a Git repository in {} and committed {commit}",
                        folder.display()
                    ));
                }
                Some(commit) => printer.note(&format!("committed {commit}")),
                None => printer.note("nothing has changed since the last commit"),
            }
            Ok(CommandOutcome::Done)
        }
    }
}

fn write_shop(folder: &Path, printer: &Printer) -> Result<CommandOutcome, CliError> {
    write_files(folder, &SHOP)?;
    printer.note(&format!(
        "wrote the manifests of a small shop to {0}; deploy them with `tidegate sync {0} --app shop --sim`",
        folder.display()
    ));
    Ok(CommandOutcome::Done)
}

/// Writes an example to an empty or new folder.
fn write_files(folder: &Path, files: &[(&str, &str)]) -> Result<(), CliError> {
    let is_taken = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file();
    if is_taken {
        let place = folder.display();
        return Err(CliError::usage(format!("{place} exists and is not empty; choose another folder")));
    }
    for (name, content) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|source| CliError::io("create", parent, source))?;
        fs::write(&path, content).map_err(|source| CliError::io("write", &path, source))?;
    }
    Ok(())
}

fn write_fleet(folder: &Path, printer: &Printer) -> Result<CommandOutcome, CliError> {
    write_files(folder, &FLEET)?;
    commit(&folder.join(REPOSITORY), FIRST_MESSAGE)?;
    printer.note(&format!(
        "wrote three Applications and an ApplicationSet to {0}, and a Git repository to {0}/repo; deploy them with `tidegate serve --sim --apps {0}`",
        folder.display()
    ));
    Ok(CommandOutcome::Done)
}

/// Creates an example's Git repository. This project stores the example without it, because a checkout can't
/// contain another repository.
pub fn create_repository(folder: &Path, printer: &Printer) -> Result<(), CliError> {
    let repository = folder.join(REPOSITORY);
    let mut deployed =
        FLEET.iter().map(|(name, _)| Path::new(name)).filter(|name| name.starts_with(REPOSITORY));
    if repository.join(GIT).exists() || !deployed.all(|name| folder.join(name).is_file()) {
        return Ok(());
    }
    commit(&repository, FIRST_MESSAGE)?;
    printer.note(&format!("created a Git repository in {} for the example", repository.display()));
    Ok(())
}

fn commit(folder: &Path, message: &str) -> Result<Option<String>, CliError> {
    let seconds = SystemClock.now().as_seconds();
    commit_folder(folder, message, seconds).map_err(|error| CliError::usage(error.to_string()))
}
