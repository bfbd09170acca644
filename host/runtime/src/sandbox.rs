//! The sandbox of a session's programs: its folders, and who is told what holds them.

use crate::{guests::House, log::FileLog, notice::one_line, places::real, plugins::Planned, scratch::Scratch};
use pith_law::{Access, Capability, Folder};
use pith_os::{OnDecided, Sandbox, SandboxBackend, SandboxGap, SandboxGround, SandboxInForce, SandboxLevel};
use pith_protocol::Event;
use std::path::{Path, PathBuf};

/// What is said at the start where programs are not held.
const OFF: &str =
    "the sandbox is off: programs that tools run may do whatever you may, and read and change Pith's own files";

/// For the plugins that may run programs; without any nothing is made and nothing said. `own` are folders of the session that plugins are granted
/// parts of: its spool, which need not lie in the state folder, and their temporary ones.
pub(crate) fn of_session(
    house: &House<'_>,
    planned: &[Planned],
    own: &[&Path],
    scratch: &mut Scratch,
    notices: &mut Vec<String>,
) -> Sandbox {
    if house.sandbox == SandboxLevel::Off {
        if planned.iter().any(runs_programs) {
            notices.push(OFF.to_owned());
        }
        return Sandbox::off();
    }
    let reserved = house.places.reserved();
    let environment = house.environment.for_children();
    let home = environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
    let mut kept = Vec::new();
    let mut writable = vec![house.workspace.to_owned()];
    for grant in planned.iter().flat_map(|plugin| &plugin.grants) {
        if let Capability::Files(bound) = grant
            && let Folder::Path(path) = &bound.folder
        {
            kept.push(path.clone());
            if bound.access == Access::ReadWrite {
                writable.push(path.clone());
            }
        }
    }
    kept.extend(home);
    // Outputs, the log and what plugins keep are the host's; a program has of them what its plugin was granted.
    let mut held = vec![house.places.state.clone()];
    held.extend(own.iter().filter(|path| path.is_dir()).map(|path| path.to_path_buf()));
    let temp =
        if planned.iter().any(runs_programs) { scratch.programs_temp(&std::env::temp_dir(), &reserved) } else { None };
    // Where it lies outside of `/tmp`, nothing shall be put in its place by its other name; programs have it as their own.
    held.extend(
        temp.as_ref().and_then(|temp| temp.parent()).filter(|parent| !is_in_temp(parent)).map(Path::to_path_buf),
    );
    let ground =
        SandboxGround { reserved, held, work: Some(house.workspace.to_owned()), kept, writable, temp, environment };
    Sandbox::new(house.sandbox, ground, house.sandbox_mask, Some(teller(house)))
}

fn is_in_temp(folder: &Path) -> bool {
    real(folder).starts_with(real(Path::new("/tmp")))
}

/// Whether a plugin may run programs.
pub(crate) fn runs_programs(plugin: &Planned) -> bool {
    plugin.grants.iter().any(|grant| matches!(grant, Capability::Process(_)))
}

/// Into the log it goes in any case; people are told where the level is not what they know it as.
fn teller(house: &House<'_>) -> OnDecided {
    let (log, outbox) = (FileLog::new(house.places.log_file()), house.outbox.clone());
    Box::new(move |decided| match decided {
        Ok(in_force) => {
            log.write("info", "pith", &whole(in_force));
            if let Some(message) = notice(in_force) {
                outbox.offer(Event::Notice { message: one_line(&message) });
            }
        }
        // Whoever asked for a program gets these words as its error.
        Err(error) => log.write("error", "pith", &error.to_string()),
    })
}

fn whole(in_force: &SandboxInForce) -> String {
    format!("programs run in the sandbox {} by {}{}", in_force.level, in_force.backend, list(&in_force.gaps, |_| true))
}

/// None where it is as the level says. That root's programs are root is no news to root.
fn notice(in_force: &SandboxInForce) -> Option<String> {
    let is_told = |gap: &SandboxGap| match in_force.backend {
        SandboxBackend::Landlock => *gap != SandboxGap::Root,
        _ => gap.weakens() && *gap != SandboxGap::Root,
    };
    let gaps = list(&in_force.gaps, is_told);
    let hint = if in_force.backend == SandboxBackend::Landlock { "; install bubblewrap for all of it" } else { "" };
    (!gaps.is_empty())
        .then(|| format!("programs run in the sandbox {} by {}{gaps}{hint}", in_force.level, in_force.backend))
}

fn list(gaps: &[SandboxGap], wanted: impl Fn(&SandboxGap) -> bool) -> String {
    gaps.iter().filter(|gap| wanted(gap)).map(|gap| format!("; {gap}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_is_not_as_the_level_says() {
        let in_force =
            |backend, gaps: &[SandboxGap]| SandboxInForce { level: SandboxLevel::Guard, backend, gaps: gaps.to_vec() };
        assert_eq!(notice(&in_force(SandboxBackend::Bubblewrap, &[])), None);
        assert_eq!(notice(&in_force(SandboxBackend::Bubblewrap, &[SandboxGap::Root])), None);
        let link = SandboxGap::Link("/home/me/.config".into());
        let text = notice(&in_force(SandboxBackend::Bubblewrap, &[SandboxGap::Root, link])).unwrap();
        assert!(text.contains("guard by bubblewrap; /home/me/.config is a link") && !text.contains("root"), "{text}");
        let text = notice(&in_force(SandboxBackend::Landlock, &[SandboxGap::WayFolders])).unwrap();
        assert!(
            text.contains("Landlock") && text.contains("home folder") && text.contains("install bubblewrap"),
            "{text}"
        );
        let text = whole(&in_force(SandboxBackend::Bubblewrap, &[SandboxGap::Root]));
        assert!(text.contains("are root"), "{text}");
    }
}
