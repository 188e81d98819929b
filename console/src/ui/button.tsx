// Buttons. One `primary` in a view; a destructive one names its object.
import type { ReactNode, Ref } from 'react';
import { Button as AriaButton, type ButtonProps as AriaButtonProps } from 'react-aria-components';
import { Link } from './link';

type Look = 'plain' | 'primary' | 'quiet' | 'danger' | 'danger-solid';
type Size = 'sm' | 'md' | 'lg';

interface Common {
  look?: Look;
  size?: Size;
  /** As wide as what it is in. */
  block?: boolean;
  className?: string;
}

function classes({ look = 'plain', size = 'md', block, className }: Common, icon = false): string {
  const looks = { plain: '', primary: 'primary', quiet: 'quiet', danger: 'danger', 'danger-solid': 'danger solid' };
  return ['btn', looks[look], size === 'md' ? '' : size, icon ? 'icon' : '', block ? 'block' : '', className ?? '']
    .filter(Boolean)
    .join(' ');
}

export interface ButtonProps extends Common, Omit<AriaButtonProps, 'className' | 'style' | 'children' | 'render'> {
  children: ReactNode;
  ref?: Ref<HTMLButtonElement>;
}

/** `onPress`, `isDisabled`, `isPending`. Icons are children, before the word. */
export function Button({ look, size, block, className, children, ...rest }: ButtonProps) {
  return (
    <AriaButton {...rest} className={classes({ look, size, block, className })}>
      {children}
    </AriaButton>
  );
}

export interface IconButtonProps extends Omit<ButtonProps, 'aria-label' | 'block'> {
  /** What it does, for those who cannot see the icon. Also its tooltip. */
  label: string;
}

export function IconButton({ label, look = 'quiet', size, className, children, ...rest }: IconButtonProps) {
  return (
    <AriaButton {...rest} aria-label={label} className={classes({ look, size, className }, true)}>
      <span title={label} className="icon-box">
        {children}
      </span>
    </AriaButton>
  );
}

/** Looks like a button, goes to a page of the console. */
export function ButtonLink({ href, children, ...look }: Common & { href: string; children: ReactNode }) {
  return (
    <Link href={href} className={classes(look)}>
      {children}
    </Link>
  );
}
