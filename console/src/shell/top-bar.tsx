// Brand, team, palette, state of the connection, theme, person.
import { ChevronsUpDown, Contrast, Keyboard, LogOut, Moon, Search, Sun, SunMoon } from 'lucide-react';
import { useEffect, useState } from 'react';
import { signOut, switchTeam } from '../api';
import { endSession } from '../api/client';
import { useLiveState } from '../live';
import { useSession } from '../session';
import { Button, IconButton, KeyHint, Link, Mark, Menu, StateDot, toast } from '../ui';
import { strings } from './strings';
import { setTheme, type Theme, useTheme } from './theme';

const ICONS = { system: <SunMoon />, light: <Sun />, dark: <Moon /> };

function ThemeMenu() {
  const theme = useTheme();
  return (
    <Menu
      label={strings.theme}
      trigger={
        <IconButton label={strings.theme}>
          <Contrast />
        </IconButton>
      }
      items={(['system', 'light', 'dark'] as Theme[]).map((id) => ({
        id,
        label: strings.themes[id],
        icon: ICONS[id],
        note: theme === id ? '✓' : undefined,
        onAction: () => setTheme(id),
      }))}
    />
  );
}

function PersonMenu({ onHelp }: { onHelp: () => void }) {
  const { user } = useSession();
  async function leave(): Promise<void> {
    try {
      await signOut();
      endSession();
    } catch (error) {
      toast.failed(strings.signOutFailed, error);
    }
  }
  return (
    <Menu
      label={strings.person(user.name)}
      trigger={
        <IconButton label={strings.person(user.name)}>
          <span className="avatar" data-initials={user.name.slice(0, 2).toUpperCase()} />
        </IconButton>
      }
      items={[
        { label: strings.shortcuts, icon: <Keyboard />, keys: '?', onAction: onHelp },
        'separator',
        { label: strings.signOut, icon: <LogOut />, onAction: leave },
      ]}
    />
  );
}

/** The team, and the others that one can switch to. */
function TeamMenu() {
  const { team, teams = [] } = useSession();
  async function enter(id: string): Promise<void> {
    try {
      await switchTeam(id);
      // Everything on the page is of the other team.
      location.assign('/console/');
    } catch (error) {
      toast.failed(strings.notSwitched, error);
    }
  }
  if (teams.length < 2) return <span className="team cut">{team.name}</span>;
  return (
    <Menu
      label={strings.teams}
      trigger={
        <Button look="quiet" className="team cut" aria-label={strings.teamNow(team.name)}>
          {team.name}
          <ChevronsUpDown />
        </Button>
      }
      items={teams.map(({ id, name, role }) => ({
        id,
        label: name,
        note: id === team.id ? '✓' : role,
        disabled: id === team.id,
        onAction: () => void enter(id),
      }))}
    />
  );
}

/** Quiet, and only when it lasts: a socket that comes back within a second is no news. */
function Connection() {
  const state = useLiveState();
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (state !== 'lost') return setShown(false);
    const timer = setTimeout(() => setShown(true), 1000);
    return () => clearTimeout(timer);
  }, [state]);
  return (
    <span role="status" className="connection">
      {shown && (
        <span className="badge" data-state="waiting" title={strings.lostHint}>
          <StateDot state="waiting" />
          {strings.lost}
        </span>
      )}
    </span>
  );
}

export function TopBar({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }) {
  return (
    <header className="topbar">
      <Link className="brand" href="/" aria-label={strings.home}>
        <Mark />
        <span className="only-wide">cabana</span>
      </Link>
      <span className="crumb" aria-hidden="true">
        /
      </span>
      <TeamMenu />
      <span className="grow" />
      <Connection />
      <Button className="search-button only-wide" onPress={onPalette}>
        <Search />
        {strings.search}
        <span className="grow" />
        <KeyHint keys="mod+k" />
      </Button>
      <span className="only-small">
        <IconButton label={strings.searchShort} onPress={onPalette}>
          <Search />
        </IconButton>
      </span>
      <ThemeMenu />
      <PersonMenu onHelp={onHelp} />
    </header>
  );
}
