// The frame of a page: padding, title, breadcrumbs, actions.
import { type ReactNode, useEffect } from 'react';
import { createPortal } from 'react-dom';
import { Link } from './link';

/** "Sandboxes · Cabana" in the tab of the browser. */
export function useDocumentTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Cabana` : 'Cabana';
  }, [title]);
}

export interface PageProps {
  /** Also the title of the browser's tab. */
  title: string;
  children: ReactNode;
  /** For forms and texts: not wider than one can read. */
  narrow?: boolean;
  /** As high as the window, with its own scrolling inside: terminal, files. */
  fill?: boolean;
}

export function Page({ title, children, narrow, fill }: PageProps) {
  useDocumentTitle(title);
  return (
    <div className={['page', narrow ? 'narrow' : '', fill ? 'fill' : ''].filter(Boolean).join(' ')}>{children}</div>
  );
}

export interface Crumb {
  label: string;
  href: string;
}

export interface PageHeadProps {
  title: ReactNode;
  /** Pages above this one. */
  crumbs?: Crumb[];
  /** After the title: badges, an id, counts. */
  children?: ReactNode;
  /** At the end of the line; one primary button. */
  actions?: ReactNode;
}

export function PageHead({ title, crumbs = [], children, actions }: PageHeadProps) {
  return (
    <header className="page-head">
      {crumbs.length > 0 && (
        <nav aria-label="Breadcrumbs" className="crumbs">
          {crumbs.map((crumb) => (
            <span key={crumb.href}>
              <Link href={crumb.href}>{crumb.label}</Link>
              <span className="crumb" aria-hidden="true">
                /
              </span>
            </span>
          ))}
        </nav>
      )}
      <h1 className="cut">{title}</h1>
      {children}
      {actions && <div className="actions">{actions}</div>}
    </header>
  );
}

/** Under the scrolling part of the page, so that it covers no row. For the bulk bar. */
export function Dock({ children }: { children: ReactNode }) {
  const dock = document.getElementById('dock');
  return dock ? createPortal(children, dock) : null;
}
