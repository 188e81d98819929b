// All pages, in one table: the router, the rail, the tab bar, the palette and `g …` shortcuts are made from it.
import {
  Bot,
  BrainCircuit,
  ChartColumn,
  Gauge,
  House,
  Info,
  KeyRound,
  Layers,
  type LucideIcon,
  MessageCircle,
  Monitor,
  MonitorSmartphone,
  ScrollText,
  Server,
  UserRound,
  Users,
  Webhook,
} from 'lucide-react';
import type { ComponentType, LazyExoticComponent } from 'react';
import { lazyPart } from './lazy-part';
import type { Permission } from './wire';

type PageComponent = ComponentType | LazyExoticComponent<ComponentType>;

export interface PageEntry {
  /** Pattern of wouter, without /console. The first that matches wins. */
  path: string;
  component: PageComponent;
  /** In the rail, where it is given. */
  nav?: {
    label: string;
    icon: LucideIcon;
    /** `g` and this letter go there. */
    letter: string;
    section: 'main' | 'settings';
    /** What one must be allowed to do for the page to show anything. */
    needs?: Permission;
    /** In the tab bar of phones; the others are behind More. */
    tab?: boolean;
  };
  /** The path of the entry in the rail that is marked on this page. */
  under?: string;
  /** The rail is narrow: the page needs the room. */
  slim?: boolean;
}

export const PAGES: readonly PageEntry[] = [
  {
    path: '/chats',
    component: lazyPart(() => import('./pages/chats')),
    nav: { label: 'Chats', icon: MessageCircle, letter: 'c', section: 'main', tab: true, needs: 'chats' },
  },
  { path: '/chats/:id', component: lazyPart(() => import('./pages/chat')), under: '/chats', slim: true },
  {
    path: '/',
    component: lazyPart(() => import('./pages/dashboard')),
    nav: { label: 'Home', icon: House, letter: 'h', section: 'main', tab: true },
  },
  {
    path: '/sandboxes',
    component: lazyPart(() => import('./pages/sandboxes')),
    nav: { label: 'Sandboxes', icon: Monitor, letter: 's', section: 'main', tab: true, needs: 'sandboxes:read' },
  },
  { path: '/create', component: lazyPart(() => import('./pages/create')), under: '/sandboxes' },
  { path: '/sandboxes/:id/:tab?', component: lazyPart(() => import('./pages/sandbox')), under: '/sandboxes' },
  {
    path: '/templates',
    component: lazyPart(() => import('./pages/templates')),
    nav: { label: 'Templates', icon: Layers, letter: 't', section: 'main', tab: true, needs: 'templates:read' },
  },
  { path: '/templates/:id/builds/:build', component: lazyPart(() => import('./pages/build')), under: '/templates' },
  { path: '/templates/:id/:tab?', component: lazyPart(() => import('./pages/template')), under: '/templates' },
  {
    path: '/usage',
    component: lazyPart(() => import('./pages/usage')),
    nav: { label: 'Usage', icon: ChartColumn, letter: 'u', section: 'main', needs: 'usage:read' },
  },
  {
    path: '/agents',
    component: lazyPart(() => import('./pages/agents')),
    nav: { label: 'Agents', icon: Bot, letter: 'n', section: 'main', needs: 'chats' },
  },
  { path: '/agents/:id', component: lazyPart(() => import('./pages/agents/edit')), under: '/agents' },
  {
    path: '/models',
    component: lazyPart(() => import('./pages/models')),
    nav: { label: 'Models', icon: BrainCircuit, letter: 'm', section: 'settings', needs: 'chats' },
  },
  {
    path: '/settings/people',
    component: lazyPart(() => import('./pages/people')),
    nav: { label: 'People', icon: Users, letter: 'p', section: 'settings', needs: 'members' },
  },
  {
    path: '/settings/account',
    component: lazyPart(() => import('./pages/account')),
    nav: { label: 'Account', icon: UserRound, letter: 'y', section: 'settings' },
  },
  {
    path: '/settings/keys',
    component: lazyPart(() => import('./pages/keys')),
    nav: { label: 'API keys', icon: KeyRound, letter: 'k', section: 'settings', needs: 'keys' },
  },
  {
    path: '/settings/limits',
    component: lazyPart(() => import('./pages/limits')),
    nav: { label: 'Limits', icon: Gauge, letter: 'l', section: 'settings', needs: 'usage:read' },
  },
  {
    path: '/settings/audit',
    component: lazyPart(() => import('./pages/audit')),
    nav: { label: 'Audit', icon: ScrollText, letter: 'd', section: 'settings', needs: 'audit:read' },
  },
  {
    path: '/settings/webhooks',
    component: lazyPart(() => import('./pages/webhooks')),
    nav: { label: 'Webhooks', icon: Webhook, letter: 'w', section: 'settings', needs: 'sandboxes:read' },
  },
  {
    path: '/settings/webhooks/:id',
    component: lazyPart(() => import('./pages/webhooks')),
    under: '/settings/webhooks',
  },
  {
    path: '/settings/sessions',
    component: lazyPart(() => import('./pages/sessions')),
    nav: { label: 'Sessions', icon: MonitorSmartphone, letter: 'i', section: 'settings' },
  },
  {
    path: '/server',
    component: lazyPart(() => import('./pages/server')),
    nav: { label: 'This server', icon: Server, letter: 'v', section: 'settings' },
  },
  {
    path: '/about',
    component: lazyPart(() => import('./pages/about')),
    nav: { label: 'About', icon: Info, letter: 'a', section: 'settings' },
  },
  // All components on one page, with `npm run dev` only.
  ...(import.meta.env.DEV ? [{ path: '/kit', component: lazyPart(() => import('./pages/kit')) }] : []),
];

/** An entry of the rail. */
export type NavEntry = PageEntry & { nav: NonNullable<PageEntry['nav']> };

/** The entries of the rail for somebody with these permissions. */
export function navEntries(permissions: readonly Permission[] = []): NavEntry[] {
  return PAGES.filter((page): page is NavEntry => {
    const needs = page.nav?.needs;
    return page.nav !== undefined && (needs === undefined || permissions.includes(needs));
  });
}

/** Words of the rail's sections; the first has none. */
export const SECTIONS = { main: null, settings: 'Settings' } as const;
